/* Programs of prograd as libraries: the part that is the same for every program.
 *
 * A library has code and tables; an instance has states and working memory, all of it in memory of
 * the caller's. Nothing is allocated. Instances are independent: threads may use several at once,
 * but one instance at a time belongs to one thread. The header of a program, NAME.h, declares its
 * functions; those here take any program. Functions that return int return 0 (PROGRAD_OK) or the
 * number of an error, and prograd_error() then has the sentence.
 */
#ifndef PROGRAD_H
#define PROGRAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prograd prograd;                 /* an instance */
typedef struct prograd_program prograd_program; /* code and tables, in the library */

enum {
  PROGRAD_OK,
  PROGRAD_REFUSED,       /* an op or a feed refuses a number, such as a label out of range */
  PROGRAD_NO_LENGTH,     /* total_steps is not set, and a schedule reads it */
  PROGRAD_NO_FILE,       /* a file cannot be opened, read or written */
  PROGRAD_DAMAGED,       /* a file is cut short, or is none of tensors */
  PROGRAD_OTHER_PROGRAM, /* a file has states of another program */
  PROGRAD_NO_STATE,      /* there is no state of that name or size */
  PROGRAD_NO_THREADS,    /* helper threads cannot be started */
  PROGRAD_NO_ROWS,       /* rows do not fill the steps of a run, or a run does what no library can */
  PROGRAD_NO_CPU,        /* the CPU lacks the instructions of the library */
  PROGRAD_NOT_FINITE     /* the loss of a run is NaN or Inf */
};

/* Put an instance into memory, which has at least NAME_MEMORY_BYTES bytes, with the initial states
 * of a file that the build wrote (NAME.states.safetensors), or with zeros if `path` is NULL. Of the
 * programs (NAME_programs, NULL at the end) it is the first whose instructions the CPU has. */
int prograd_open(prograd **self, const prograd_program *const *programs, const char *path,
                 void *memory);

/* The same with a file that is in memory already; also for systems without files. */
int prograd_open_bytes(prograd **self, const prograd_program *const *programs, const void *file,
                       size_t bytes, void *memory);

/* The same with zeros. NAME_initialise() then draws initial values, so a board needs none in its flash. */
int prograd_begin(prograd **self, const prograd_program *const *programs, void *memory);

/* Make a step of an entry. `feeds` and `fetches` are arrays in the order of NAME.h; a fetch that is
 * not wanted is NULL. After an error of the step, load states before you go on. */
int prograd_step(prograd *self, int entry, const void *const *feeds, void *const *fetches);

/* Set the totals of metrics to their initial values: those of training when an epoch begins, those
 * of the other entries when an evaluation does. Metrics are means over the steps since then. */
void prograd_begin_epoch(prograd *self);
void prograd_begin_evaluation(prograd *self);

/* Read states from a file that the runtime or prograd_save() wrote, or write them. An error leaves
 * the states, or the file that was there, as they were. */
int prograd_load(prograd *self, const char *path);
int prograd_load_bytes(prograd *self, const void *file, size_t bytes);
int prograd_save(prograd *self, const char *path);

/* Return the elements of a state and their number of bytes; NULL if there is no such state. */
const void *prograd_state(const prograd *self, const char *name, size_t *bytes);
/* Set a state: "seed", "total_steps", a setting, a weight. */
int prograd_set(prograd *self, const char *name, const void *elements, size_t bytes);

/* Draw the initial values of another seed, as NAME_initialise(self, seed) does: totals, counters and
 * slots begin anew. States with values in files of the program stay as they are. */
int prograd_initialise(prograd *self, const prograd_program *const *initials, int64_t seed);

/* Write the hash of all states, 64 hexadecimal digits and a zero: `state_sha256` of the runtime. */
void prograd_state_sha256(const prograd *self, char digits[65]);

/* Let this number of threads share the work of steps (link prograd_threads.c and pthreads), and end
 * them again with 1. Bits do not depend on the number. */
int prograd_threads(prograd *self, int threads);

/* Rows in memory: an array for each feed in the order of NAME.h, and the numbers of the rows that
 * are meant; NULL for the first `count`. Feeds that do not count rows are given once. Where rows are of
 * unequal length, `offsets` has an array for such a feed and NULL for others: row i is the elements
 * offsets[i] to offsets[i + 1] along axis 1, and `padding` has an element to fill up with; NULL for 0. */
typedef struct {
  const void *const *columns;
  const int64_t *numbers;
  int64_t count;
  const int64_t *const *offsets;
  const void *const *padding;
  int64_t total; /* of rows that `offsets` has; 0 for `count` */
} prograd_rows;

/* A metric of an epoch or of an evaluation. */
typedef struct {
  int64_t epoch, step;
  int is_evaluation, is_best;
  const char *metric;
  double value;
} prograd_report;

typedef void prograd_said(const prograd_report *report, void *context);

/* Train as `runtime execute` does: epochs over rows in the order that follows from the seed, with the
 * evaluations, the best states and the early end that the program declares; the states then have its
 * hash. 0 epochs are those of the program. `evaluated` may be NULL. `room` has prograd_run_bytes()
 * bytes. `said` is called for each metric, or NULL. Link prograd_run.c, prograd_rows.c and -lm. */
int64_t prograd_run_bytes(const prograd *self, const prograd_rows *train, const prograd_rows *evaluated);
int prograd_run(prograd *self, const prograd_rows *train, const prograd_rows *evaluated,
                int64_t epochs, void *room, prograd_said *said, void *context);

/* A folder of checkpoints, of which the newest are kept. `runtime execute --resume` goes on from them,
 * and prograd_run_checkpointed() from those of the runtime. */
typedef struct {
  const char *folder;
  int64_t every;   /* steps between two; 0 for one at the end of each epoch */
  int64_t keep;    /* number of the newest that are kept; 0 for 3 */
  int resumes;     /* go on from the newest one, if there is one */
  int64_t damaged; /* is set: number of damaged ones that were renamed, and the one before them taken */
} prograd_checkpoints;

/* The same with checkpoints; link prograd_checkpoint.c too, which needs POSIX. 0 epochs are those of
 * the run that is resumed. A run that goes on has the rows that it began with, or is refused. */
int prograd_run_checkpointed(prograd *self, prograd_checkpoints *checkpoints, const prograd_rows *train,
                             const prograd_rows *evaluated, int64_t epochs, void *room,
                             prograd_said *said, void *context);

/* Gather `bytes` bytes of each process into `all`, in the order of the processes, as MPI_Allgather does;
 * return 0, or another number after a failure. */
typedef int prograd_gather(const void *mine, size_t bytes, void *all, void *context);

/* Make a step in shards, of which each of `ranks` processes computes as many: `feeds` have the rows of
 * its own, process after process, and `rank` is its number, from 0. The sums are gathered and added in the order of the program, so the
 * states of all processes have the bits of one process with all rows. `sums` is NAME_TRAIN_SUMS_ENTRY,
 * and `shards` NAME_TRAIN_SHARDS, of a library that was built with --by-shard; `room` has
 * prograd_shards_bytes() bytes. `fetches` are those of NAME_train. Link prograd_shards.c. */
int64_t prograd_shards_bytes(const prograd *self, int sums, int shards);
int prograd_step_in_shards(prograd *self, int sums, int shards, const void *const *feeds,
                           void *const *fetches, int rank, int ranks, void *room,
                           prograd_gather *gather, void *context);

/* Return the sentence of the last error of an instance. */
const char *prograd_error(const prograd *self);

#ifdef __cplusplus
}
#endif
#endif
