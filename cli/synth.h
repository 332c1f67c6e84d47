/* synth.h: a scene that is a formula, so that its motion is known exactly: a textured background under a moving (and
 * zooming) camera, and a textured object that moves on its own in front of it. */
#ifndef SNLS_CLI_SYNTH_H
#define SNLS_CLI_SYNTH_H

#include <snls/options.h>
#include <stdint.h>

typedef struct Synth {
    int32_t frames, height, width;
    double camera_x, camera_y; /* motion of the background, pixels per frame */
    double zoom;               /* magnification per frame about the centre */
    double object_x, object_y; /* motion of the object, pixels per frame */
    double object_size;        /* its radius in halves of the shorter side; 0: no object */
    double disturb;            /* root mean square length of the error put on the flow, pixels */
    uint64_t seed;
} Synth;

extern const SnlsOption synth_options[]; /* of everything but seed */
void synth_defaults(Synth *scene);

void synth_frame(const Synth *scene, int64_t t, float *rgb);               /* (H,W,3), 0..255 */
void synth_flow(const Synth *scene, int64_t t, int64_t step, float *flow); /* (H,W,2): frame t to t+step, (x,y) */
void synth_occlusion(const Synth *scene, int64_t t, int64_t step,
                     float *mask); /* (H,W): 1 where t+step does not show it */

/* A number from 0 to 1 for each point of an integer lattice. */
double synth_lattice(uint64_t seed, int64_t layer, int64_t x, int64_t y);

/* Smooth noise from -1 to 1, lattice one wavelength apart. */
double synth_noise(uint64_t seed, int64_t layer, double x, double y, double wavelength);

#endif
