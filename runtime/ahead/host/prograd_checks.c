/* The sentences for numbers that ops refuse. */
#include "prograd_tables.h"
#if defined PROGRAD_SMALL || defined PROGRAD_IN_ONE /* else prograd.c has it */

#include <string.h>

static void say(prograd *self, const char *text) {
  size_t used = strlen(self->why), more = strlen(text), room = sizeof self->why - 1 - used;
  memcpy(self->why + used, text, more < room ? more : room);
  self->why[used + (more < room ? more : room)] = 0;
}

#ifdef PROGRAD_NO_FILES /* a board says what is refused, and not which row */
void prograd_say_check(prograd *self, const prograd_entry *entry, const prograd_check *check,
                       const void *const *feeds) {
  (void)entry, (void)feeds;
  self->why[0] = 0;
  say(self, prograd_text(self, check->why));
}
#else
static int64_t element(const prograd_place *feed, const unsigned char *bytes, int64_t i) {
  int64_t wide;
  int32_t half;
  if (feed->item == 8) return memcpy(&wide, bytes + 8 * i, 8), wide;
  return memcpy(&half, bytes + 4 * i, 4), half;
}

static void say_number(prograd *self, int64_t number) {
  char digits[24], *at = digits + sizeof digits - 1;
  uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  *at = 0;
  do *--at = (char)('0' + left % 10);
  while (left /= 10);
  if (number < 0) *--at = '-';
  say(self, at);
}

/* Name the number that a check refuses, as the runtime does: the least below 0, or the greatest; and its first row. */
void prograd_say_check(prograd *self, const prograd_entry *entry, const prograd_check *check,
                       const void *const *feeds) {
  const prograd_place *feed = self->program->places + entry->feeds + (check->feed < 0 ? 0 : check->feed);
  int64_t count = check->feed < 0 ? 0 : feed->bytes / feed->item, least = 0, most = 0;
  for (int64_t i = 1; i < count; i++) {
    if (element(feed, feeds[check->feed], i) < element(feed, feeds[check->feed], least)) least = i;
    if (element(feed, feeds[check->feed], i) > element(feed, feeds[check->feed], most)) most = i;
  }
  int64_t wrong = count && element(feed, feeds[check->feed], least) < 0 ? least : most;
  int64_t number = count ? element(feed, feeds[check->feed], wrong) : 0;
  self->why[0] = 0;
  if (number >= 0 && number < check->size) count = 0; /* it is not the feed that has it */
  say(self, prograd_text(self, count ? check->before : check->why));
  if (!count) return;
  say_number(self, number);
  say(self, prograd_text(self, check->between));
  say_number(self, wrong / (feed->bytes / feed->item / entry->rows));
  say(self, prograd_text(self, check->after));
}
#endif
#endif
