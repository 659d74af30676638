"""Random programs, calls of single operators and tables, and judges that share no code with what they judge."""
