/* held.h: large pieces of memory in a file, for runs that need more than they may have. */
#ifndef SNLS_CLI_HELD_H
#define SNLS_CLI_HELD_H

#include <stdbool.h>
#include <stddef.h>

/* From now on pieces of memory from HELD_LEAST bytes on lie in files without a name in this folder, and no more of them is
 * resident than keeps the program below limit bytes. expected: bytes that will be asked for. An exit code. */
int hold_in_files(const char *folder, double limit, double expected);
bool held_wanted(size_t size); /* should a piece of this size lie in a file? */
void *held_take(size_t size);  /* NULL: no room */
void held_give_back(void *memory);

#endif
