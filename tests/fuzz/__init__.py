"""Random programs and random calls of single operators, and judges that share no code with what they judge."""
