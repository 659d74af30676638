/* Initial values of another seed; see prograd.h. Link it only if you call it. */
#include "prograd_tables.h"

#include <string.h>

int prograd_initialise(prograd *self, const prograd_program *const *initials, int64_t seed) {
  const void *none[] = {&seed}; /* its step has neither feeds nor fetches */
  void *nothing[] = {NULL};
  const prograd_program *program = self->program;
  while (initials[0] != program) initials += 2;
  for (int64_t i = 0; i < program->sizes->states; i++)
    if (!program->states[i].stays) memset(self->memory + program->states[i].at, 0, (size_t)program->states[i].bytes);
  prograd_set(self, "seed", &seed, sizeof seed);
  self->program = initials[1];
  prograd_prepare(self);
  int error = prograd_step(self, 0, none, nothing);
  self->program = program;
  prograd_prepare(self);
  return error;
}
