/* A run: its position, its rows and its room; for prograd_run.c and its companions only. */
#ifndef PROGRAD_RUN_H
#define PROGRAD_RUN_H

#include "prograd_tables.h"

/* The ways to combine a fetch over steps; one of several elements is a table. */
enum { PROGRAD_LAST, PROGRAD_MEAN, PROGRAD_SUM, PROGRAD_TABLE };
enum { MOST_FETCHES = 64 };

typedef struct { /* the best value of a metric, and how many came since */
  double best;
  int64_t has_best, wait, cooldown, exists;
} prograd_watch;

typedef struct { double value; int64_t steps; } prograd_ranked; /* an evaluation whose checkpoint is kept */

typedef struct { /* what a checkpoint has besides the states; the words are those of docs/format.md */
  int64_t epoch, step, steps, closed, rows, summed_rows, stale, stopped, judged, best_at[3], ranked;
  int64_t has_metrics, has_evaluation, has_best, has_best_evaluation;
  double best_metric; /* the others are scalar fetches of an entry, by their number */
  double sums[MOST_FETCHES], metrics[MOST_FETCHES], evaluation[MOST_FETCHES], best_evaluation[MOST_FETCHES];
} prograd_position;

typedef struct prograd_course { /* a run under way; pointers are into the room that its caller gave */
  prograd *self;
  const prograd_run_table *run;
  const prograd_rows *train, *evaluated;
  prograd_position position;
  prograd_watch *watches;
  prograd_ranked *top;
  unsigned char *feeds[MOST_FETCHES], *fetches[MOST_FETCHES], *best, *infinite;
  int64_t *order, *other, *turns, *found_best, total, per_epoch, every, saved[2];
  uint64_t *keys;
  char *text, train_sha256[65], evaluated_sha256[65];
  int (*write)(struct prograd_course *course); /* a checkpoint; NULL for none */
  const prograd_checkpoints *checkpoints;
  prograd_said *said;
  void *context;
} prograd_course;

/* prograd_run.c */
int prograd_set_up(prograd_course *course, prograd *self, const prograd_rows *train, const prograd_rows *evaluated,
                   void *room, prograd_said *said, void *context);
int prograd_plan(prograd_course *course, int64_t epochs);
int prograd_train(prograd_course *course);
int prograd_require_finite(prograd_course *course);

/* prograd_rows.c */
int prograd_is_ragged(const prograd *self, int64_t entry, const prograd_rows *rows);
int64_t prograd_lengths(const prograd *self, int64_t first, int64_t count);
int64_t prograd_entry_of(const prograd *self, int64_t first, int64_t count, int64_t length);
int prograd_order(prograd_course *course, int64_t epoch);
int prograd_by_length(prograd_course *course, int64_t first, int64_t count, const prograd_rows *rows);
int64_t prograd_length_at(const prograd_course *course, int64_t first, int64_t count, const prograd_rows *rows,
                          int64_t row);
void prograd_fill(const prograd_course *course, int64_t entry, const prograd_rows *rows, int64_t first);

#endif
