/* clips.h: the clips of a folder. */
#ifndef SNLS_CLI_CLIPS_H
#define SNLS_CLI_CLIPS_H

#include "cli.h"

typedef struct Clips {
    char **path; /* sorted by name */
    int count, room;
} Clips;

/* Folders of images, .npy and videos in folder, those whose name holds only where that is given; or folder alone, where it is a clip itself: a
 * file, a pipe, "-", a pattern, a folder of pictures. At least one, or a line and a code. */
int clips_list(Clips *clips, const char *folder, const char *only);
void clips_free(Clips *clips);

#endif
