/* Checkpoints of a run; for prograd_checkpoint.c and its companions only. */
#ifndef PROGRAD_CHECKPOINT_H
#define PROGRAD_CHECKPOINT_H

#include "prograd_run.h"

#include <stdio.h>

typedef struct { /* texts go to memory, to a file, or are only counted */
  char *to;
  FILE *file;
  int64_t room, count;
  int escapes; /* quotes and backslashes, as in a text inside a text */
} prograd_sink;

/* prograd_position.c */
void prograd_put(prograd_sink *s, const char *text);
void prograd_put_count(prograd_sink *s, int64_t number);
void prograd_put_name(prograd_sink *s, const char *prefix, const char *name);
void prograd_put_position(prograd_sink *s, const prograd_course *course);
const char *prograd_value_of(const char *object, const char *key);
int prograd_is_position(prograd_course *course, const char *position);

/* prograd_fingerprint.c */
void prograd_fingerprint(const prograd_course *course, int64_t entry, const prograd_rows *rows, int is_shuffled,
                         char digits[65]);

#endif
