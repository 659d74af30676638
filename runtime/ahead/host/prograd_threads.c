/* Helper threads for the steps of a library that was built for several; link it with -pthread.
 *
 * The code of the library shares the chunks of a step among threads, and lets idle ones sleep. What
 * is here starts the threads, and leads them from one entry's tables to another's. */
#define _GNU_SOURCE
#include "prograd_tables.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { SPINS = 4096, YIELDS = 1024, MOST = 64 };

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  const prograd_phase *phases; /* of the entry that the helpers are at */
  const prograd_chunk *chunks;
  int64_t turn, begun, inside, ended;
  pthread_t helpers[MOST];
} team_of;

typedef char prograd_fits_too[sizeof(team_of) <= 1024 ? 1 : -1]; /* room that the tables leave */

static int64_t *board_of(prograd *self) {
  return (int64_t *)(self->memory + self->program->sizes->board);
}

static void *helper(void *argument) {
  prograd *self = argument;
  team_of *team = self->team;
  int64_t seen = 0, number;
  pthread_mutex_lock(&team->lock);
  number = ++team->begun;
  for (;;) {
    while (!team->ended && team->turn == seen) pthread_cond_wait(&team->changed, &team->lock);
    if (team->ended) break;
    const prograd_phase *phases = team->phases;
    const prograd_chunk *chunks = team->chunks;
    seen = team->turn;
    team->inside++;
    pthread_mutex_unlock(&team->lock);
    self->program->help(board_of(self), phases, chunks, number, self->threads, self->give_way, SPINS,
                        YIELDS);
    pthread_mutex_lock(&team->lock);
    team->inside--;
    pthread_cond_broadcast(&team->changed);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

/* Call the helpers back from the code; the lock is held. */
static void call_back(prograd *self, team_of *team) {
  __atomic_store_n(board_of(self) + BOARD_STOP, 1, __ATOMIC_SEQ_CST);
  self->program->wake(board_of(self));
  while (team->inside) pthread_cond_wait(&team->changed, &team->lock);
  __atomic_store_n(board_of(self) + BOARD_STOP, 0, __ATOMIC_SEQ_CST);
}

static void gather_team(prograd *self, const prograd_phase *phases, const prograd_chunk *chunks) {
  team_of *team = self->team;
  if (team->chunks == chunks) return;
  pthread_mutex_lock(&team->lock);
  call_back(self, team);
  team->phases = phases;
  team->chunks = chunks;
  team->turn++;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->lock);
}

static void end_team(prograd *self) {
  team_of *team = self->team;
  pthread_mutex_lock(&team->lock);
  call_back(self, team);
  team->ended = 1;
  pthread_cond_broadcast(&team->changed);
  pthread_mutex_unlock(&team->lock);
  for (int64_t i = 0; i < self->threads - 1; i++) pthread_join(team->helpers[i], NULL);
  self->team = NULL;
  self->gather_team = NULL;
  self->threads = 1;
}

int prograd_threads(prograd *self, int threads) {
  const prograd_sizes *sizes = self->program->sizes;
  if (threads < 1 || threads > sizes->threads || !self->program->help)
    return prograd_fail(self, PROGRAD_NO_THREADS, prograd_text(self, sizes->name),
                        ": the library was not built for that number of threads");
  if (self->team) end_team(self);
  if (threads == 1) return PROGRAD_OK;
  team_of *team = (team_of *)(self->memory + sizes->team);
  *team = (team_of){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  board_of(self)[BOARD_SYSTEM_CALL] = (int64_t)(intptr_t)syscall;
  self->give_way = (void *)(intptr_t)sched_yield;
  self->team = team;
  self->gather_team = gather_team;
  self->threads = threads;
  for (int i = 0; i < threads - 1; i++)
    if (pthread_create(team->helpers + i, NULL, helper, self)) {
      self->threads = i + 1;
      end_team(self);
      return prograd_fail(self, PROGRAD_NO_THREADS, prograd_text(self, sizes->name),
                          ": the system starts no more threads");
    }
  return PROGRAD_OK;
}
