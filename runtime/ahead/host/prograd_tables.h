/* The tables of a library, as `compiler build` writes them; for prograd.c and its companions only.
 *
 * Bytes of memory and numbers of the program are int64_t, and come first in a row; positions in tables
 * are int32_t. So the tables are the same on every machine. A name or word is an offset in `text`, a
 * shape or strides an index in `numbers`. A place in memory is a base and an offset.
 */
#ifndef PROGRAD_TABLES_H
#define PROGRAD_TABLES_H

#include "prograd.h"

/* Bases; a number is no place, and the last one counts cache lines of the memory. */
enum { PROGRAD_NUMBER, PROGRAD_MEMORY, PROGRAD_CONSTANTS, PROGRAD_LINES };

typedef struct {
  int64_t bytes, board, board_words, team, versions, found; /* bytes of an instance; places in it */
  int64_t states, entries, restored, threads, header_bytes, length, by_name, name, sha256, cpu, working;
} prograd_sizes;

typedef struct { /* a state; `word` names its type in files, `kept`: a file may lack it */
  int64_t bytes, at;
  int32_t name, dtype, word, rank, shape, kept;
  int32_t item, stays;  /* bytes of an element; stays: its initial value is not drawn */
  int32_t finite;       /* a run looks for NaN in it (1), and for Inf too (2) */
} prograd_state_place;

typedef struct { /* a feed or a fetch, or a copy after the steps, then `to` is its place in memory */
  int64_t at, bytes, item, to, width; /* width: extent of axis 1 */
  int32_t name, dtype, base, rank, shape, strides, early, widened;
  int32_t kind, by_row, over, watched, described; /* of a whole run */
} prograd_place;

typedef struct { /* an entry for a number of rows; phases are counted from its first */
  int64_t rows, words_at, checks_at;
  int32_t name, trains, reads_length, words, word_count, chunks;
  int32_t phases, phase_count, packing, packing_end, actions;
  int32_t feeds, feed_count, fetches, fetch_count, copies, copy_count, checks, check_count;
  int32_t method, length; /* length: that of its rows, as a number from 0, the shortest, on */
} prograd_entry;

enum { PROGRAD_MOST_SUMS = 1024 }; /* of a shard */
enum { PROGRAD_FLOAT = 1, PROGRAD_DOUBLE, PROGRAD_INT32, PROGRAD_INT64, PROGRAD_BYTE };
enum { PROGRAD_AS_STEPS_ALLOW, PROGRAD_DROP, PROGRAD_EXACT, PROGRAD_PARTIAL };

typedef struct { int64_t setting, bits; } prograd_number; /* a setting, or -1 and the bits of a double */

typedef struct { /* a state that is multiplied when a metric stops improving */
  int64_t state, watch, metric, of_evaluation, higher;
  prograd_number factor, patience, min_delta, cooldown;
} prograd_plateau;

typedef struct { /* the run that a program declares: numbers of entries, and of fetches in them */
  int64_t train, train_count, evaluate, evaluate_count, every, epochs, shuffle, window, remainder;
  int64_t best_metric, best_of_evaluation, higher, restores, best_checkpoints;
  prograd_number patience, min_delta;
  int64_t plateaus, plateau_count, watches, watch_count, stop_watch; /* names of watches, in order */
  int64_t train_loss, evaluate_loss, most_feeds, most_fetches, unsupported;
  int64_t about, about_end, judged_by, about_bytes; /* of the description in a checkpoint: parts, and most bytes */
} prograd_run_table;

typedef struct { /* a check: its sentence; and where a feed (or -1) has the number, the parts of another one */
  int64_t size;
  int32_t group, why, feed, before, between, after;
} prograd_check;
typedef struct { int64_t at, bytes, constant; } prograd_restored; /* totals, when an epoch begins */

typedef void prograd_group(int64_t *table, int64_t start, int64_t stop, int64_t thread);
typedef struct { int32_t first, count; } prograd_phase; /* for the driver, as are chunks and actions */
typedef struct { int32_t function, words, start, stop, further; } prograd_chunk;
typedef struct { int64_t c; int32_t opcode, a, b, d; } prograd_action;
typedef void prograd_drive(int64_t *board, const prograd_phase *phases, const prograd_chunk *chunks,
                           int64_t first, int64_t last, int64_t threads, void *give_way);
typedef void prograd_help(int64_t *board, const prograd_phase *phases, const prograd_chunk *chunks,
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
  const int64_t *numbers;
  const unsigned char *words; /* in as few bytes as they need, see bind() */
  const prograd_phase *phases;
  const prograd_action *actions;
  const prograd_chunk *chunks;
  const char *text;
  const unsigned char *header, *constants;
  prograd_group *const *groups;
  prograd_drive *drive;
  prograd_help *help; /* NULL in a library for one thread */
  prograd_wake *wake;
};

/* Words of the board of the driver, by index. */
enum { BOARD_STOP = 8, BOARD_ALARM = 16, BOARD_FUNCTIONS, BOARD_SLEEPERS = 40, BOARD_WORDS = 32, BOARD_ACTIONS,
       BOARD_PAUSED, BOARD_HOSTED, BOARD_SINGLE, BOARD_SYSTEM_CALL };

struct prograd {
  const prograd_program *program;
  unsigned char *memory; /* its start, on a cache line */
  int64_t changes;       /* number of times that states were changed other than by totals */
  void *team;            /* helper threads, see prograd_threads.c */
  void (*gather_team)(prograd *self, const prograd_phase *phases, const prograd_chunk *chunks);
  int64_t threads;
  void *give_way;
  char why[256];
};

int prograd_fail(prograd *self, int error, const char *what, const char *why);
const char *prograd_text(const prograd *self, int64_t at);
int prograd_same(const char *one, const char *other); /* texts; strcmp is long on boards */
const prograd_state_place *prograd_state_of(const prograd *self, const char *name);

void prograd_prepare(prograd *self);
void prograd_say_check(prograd *self, const prograd_entry *entry, const prograd_check *check,
                       const void *const *feeds);

/* SHA-256, see prograd_sha256.c. */
typedef struct {
  uint32_t sums[8];
  uint64_t bytes;
  unsigned char block[64];
} prograd_hash;

void prograd_hash_begin(prograd_hash *h);
void prograd_hash_add(prograd_hash *h, const void *bytes, size_t count);
void prograd_hash_number(prograd_hash *h, uint64_t number);
void prograd_hash_tensor(prograd_hash *h, const prograd *self, const prograd_state_place *state,
                         const char *prefix, const char *name); /* all but the elements */
void prograd_hash_end(prograd_hash *h, char digits[65]);

/* A file of states that is read, see prograd_files.c. */
typedef struct {
  void *file; /* or NULL, and the whole file is in `bytes` */
  const unsigned char *bytes;
  uint64_t size, at, header;
  int c, matched;    /* the next byte; bytes of "program_sha256" that precede it */
  char sha256[65];
  int64_t *best;     /* of a checkpoint: where the best states begin, and its description */
  char *about, about_sha256[65];
  size_t about_bytes;
} prograd_source;

int prograd_read_header(prograd *self, prograd_source *s, const char *what);

#endif
