/* The tables of a library, as `compiler build` writes them; for prograd.c and its companions only.
 *
 * All numbers are int64_t, so the tables are the same on every machine. A name or word is an offset
 * in `text`, a shape or strides an index in `numbers`. A place in memory is a base and an offset.
 */
#ifndef PROGRAD_TABLES_H
#define PROGRAD_TABLES_H

#include "prograd.h"

enum { PROGRAD_NUMBER, PROGRAD_MEMORY, PROGRAD_CONSTANTS }; /* bases; a number is no place */

typedef struct {
  int64_t bytes, board, board_words, team, versions, found; /* bytes of an instance; places in it */
  int64_t states, entries, restored, threads, header_bytes, length, by_name, name, sha256, cpu;
} prograd_sizes;

typedef struct { /* a state; `word` names its type in files, `kept`: a file may lack it */
  int64_t name, dtype, word, rank, shape, bytes, at, kept;
} prograd_state_place;

typedef struct { /* a feed or a fetch, or a copy after the steps, then `to` is its place in memory */
  int64_t name, dtype, base, at, rank, shape, strides, item, bytes, to, early, widened;
  int64_t kind, by_row, over, watched; /* of a whole run */
} prograd_place;

typedef struct { /* an entry for a number of rows; phases are counted from its first */
  int64_t name, rows, trains, reads_length;
  int64_t words, word_count, words_at, chunks, chunk_count, chunks_at, checks_at;
  int64_t phases, phase_count, packing, packing_end, actions;
  int64_t feeds, feed_count, fetches, fetch_count, copies, copy_count, checks, check_count;
  int64_t method;
} prograd_entry;

enum { PROGRAD_FLOAT = 1, PROGRAD_DOUBLE, PROGRAD_INT32, PROGRAD_INT64, PROGRAD_BYTE };
enum { PROGRAD_AS_STEPS_ALLOW, PROGRAD_DROP, PROGRAD_EXACT, PROGRAD_PARTIAL };

typedef struct { /* the run that a program declares: numbers of entries, and of fetches in them */
  int64_t train, train_count, evaluate, evaluate_count, every, epochs, shuffle, remainder;
  int64_t best_metric, best_of_evaluation, higher, restores, patience, min_delta;
  int64_t train_loss, evaluate_loss, most_feeds, most_fetches, unsupported;
} prograd_run_table;

typedef struct { int64_t group, why; } prograd_check;             /* the sentence of a check */
typedef struct { int64_t at, bytes, constant; } prograd_restored; /* totals, when an epoch begins */

typedef void prograd_group(int64_t *table, int64_t start, int64_t stop, int64_t thread);
typedef void prograd_drive(int64_t *board, const int64_t *phases, const int64_t *chunks,
                           int64_t first, int64_t last, int64_t threads, void *give_way);
typedef void prograd_help(int64_t *board, const int64_t *phases, const int64_t *chunks,
                          int64_t thread, int64_t threads, void *give_way, int64_t spins,
                          int64_t yields);
typedef void prograd_wake(int64_t *board);

struct prograd_program {
  const prograd_sizes *sizes;
  const prograd_state_place *states;
  const prograd_entry *entries;
  const prograd_place *places;
  const prograd_check *checks;
  const prograd_restored *restored;
  const prograd_run_table *run;
  const int64_t *numbers, *words, *phases, *actions, *chunks;
  const char *text;
  const unsigned char *header, *constants;
  prograd_group *const *groups;
  prograd_drive *drive;
  prograd_help *help; /* NULL in a library for one thread */
  prograd_wake *wake;
};

/* Words of the board of the driver, by index, and of a chunk. */
enum { BOARD_STOP = 16, BOARD_ALARM = 24, BOARD_SLEEPERS = 48, BOARD_WORDS = 40, BOARD_ACTIONS,
       BOARD_PAUSED, BOARD_HOSTED, BOARD_SINGLE, BOARD_SYSTEM_CALL };
enum { CHUNK_WORDS = 5 };

struct prograd {
  const prograd_program *program;
  unsigned char *memory; /* its start, on a cache line */
  int64_t changes;       /* number of times that states were changed other than by totals */
  void *team;            /* helper threads, see prograd_threads.c */
  void (*gather_team)(prograd *self, const int64_t *phases, const int64_t *chunks);
  int64_t threads;
  void *give_way;
  char why[256];
};

int prograd_fail(prograd *self, int error, const char *what, const char *why);
const char *prograd_text(const prograd *self, int64_t at);

#endif
