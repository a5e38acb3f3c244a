/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's own kernels. Devices of one context share one module, as communicators are made often and the
 * driver takes milliseconds to load it. It lives as long as one of them: a context that nobody of ours holds
 * any more may be gone, and its address be another one's.
 *
 * All kernels are looked up, and so loaded, at once: a driver that loads lazily may wait for running kernels
 * to end, and one of ours may just be waiting for a peer.
 */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/internal.h"
#include "device/unsupported.h"
#include "kernels/images.h"

enum { MAX_KERNELS = 96, NAME_BYTES = 64 };

struct hetccl_cuda_image {
    struct hetccl_cuda_image *next;
    struct CUctx_st *context;
    struct hetccl_module module;
    size_t n_users; /* open devices */
    size_t n_kernels;
    struct {
        char name[NAME_BYTES];
        struct hetccl_kernel kernel;
    } kernels[MAX_KERNELS];
};

/* Guards the list, n_users, and loading; an image in use is only read. */
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hetccl_cuda_image *images;

/* The name of the next kernel in PTX text, and where to look on; NULL: there is none. */
static const char *next_kernel(const char *text, char name_out[NAME_BYTES])
{
    static const char entry[] = ".entry ";
    const char *found = strstr(text, entry);
    size_t bytes;

    if (found == NULL)
        return NULL;
    found += sizeof(entry) - 1;
    bytes = hetccl_min_size(strcspn(found, "( \n\t"), NAME_BYTES - 1);
    memcpy(name_out, found, bytes);
    name_out[bytes] = '\0';
    return found + bytes;
}

static enum hetccl_status find_kernels(struct hetccl_cuda_device *cuda, const char *text,
                                       struct hetccl_cuda_image *image)
{
    char name[NAME_BYTES];

    for (text = next_kernel(text, name); text != NULL; text = next_kernel(text, name)) {
        enum hetccl_status status;

        if (image->n_kernels == MAX_KERNELS)
            return hetccl_fail(HETCCL_ERR_INTERNAL, "device cuda %d: the image has more than %d kernels",
                               cuda->base.ordinal, MAX_KERNELS);
        status = hetccl_cuda_kernel_find(&cuda->base, image->module, name,
                                         &image->kernels[image->n_kernels].kernel);
        if (status != HETCCL_OK)
            return status;
        memcpy(image->kernels[image->n_kernels++].name, name, sizeof(name));
    }
    return HETCCL_OK;
}

/* With the lock held. */
static enum hetccl_status load(struct hetccl_cuda_device *cuda, struct hetccl_cuda_image **out)
{
    size_t bytes;
    const char *text = hetccl_kernel_image_ptx(&bytes);
    struct hetccl_cuda_image *image = NULL;
    enum hetccl_status status;

    if (text == NULL)
        return hetccl_device_refuse(&cuda->base, "kernels, as the library was built without clang-19");
    status = hetccl_alloc(1, sizeof(*image), &image);
    if (status != HETCCL_OK)
        return status;
    image->context = cuda->context;
    status = hetccl_cuda_module_load(&cuda->base, text, &image->module);
    if (status != HETCCL_OK)
        goto undo_alloc;
    status = find_kernels(cuda, text, image);
    if (status != HETCCL_OK)
        goto undo_load;
    image->next = images;
    images = image;
    *out = image;
    return HETCCL_OK;

undo_load:
    hetccl_cuda_module_unload(&cuda->base, image->module);
undo_alloc:
    hetccl_free(image);
    return status;
}

static enum hetccl_status attach(struct hetccl_cuda_device *cuda)
{
    enum hetccl_status status = HETCCL_OK;
    struct hetccl_cuda_image *image;

    pthread_mutex_lock(&images_lock);
    image = atomic_load_explicit(&cuda->image, memory_order_relaxed);
    if (image == NULL) {
        for (image = images; image != NULL && image->context != cuda->context;)
            image = image->next;
        if (image == NULL)
            status = load(cuda, &image);
        if (status == HETCCL_OK) {
            image->n_users++;
            /* Whoever sees the pointer sees the kernels. */
            atomic_store_explicit(&cuda->image, image, memory_order_release);
        }
    }
    pthread_mutex_unlock(&images_lock);
    return status;
}

void hetccl_cuda_image_detach(struct hetccl_cuda_device *cuda)
{
    struct hetccl_cuda_image *image = atomic_load_explicit(&cuda->image, memory_order_relaxed);
    struct hetccl_cuda_image **link = &images;

    if (image == NULL)
        return;
    pthread_mutex_lock(&images_lock);
    if (--image->n_users == 0) {
        while (*link != image)
            link = &(*link)->next;
        *link = image->next;
        hetccl_cuda_module_unload(&cuda->base, image->module);
        hetccl_free(image);
    }
    pthread_mutex_unlock(&images_lock);
    atomic_store_explicit(&cuda->image, NULL, memory_order_relaxed);
}

enum hetccl_status hetccl_cuda_image_kernel(struct hetccl_device *device, const char *name,
                                            struct hetccl_kernel *out)
{
    struct hetccl_cuda_device *cuda = hetccl_cuda_of(device);
    const struct hetccl_cuda_image *image = atomic_load_explicit(&cuda->image, memory_order_acquire);

    if (image == NULL) {
        enum hetccl_status status = attach(cuda);

        if (status != HETCCL_OK)
            return status;
        image = atomic_load_explicit(&cuda->image, memory_order_acquire);
    }
    for (size_t i = 0; i < image->n_kernels; i++) {
        if (strcmp(image->kernels[i].name, name) == 0) {
            *out = image->kernels[i].kernel;
            return HETCCL_OK;
        }
    }
    return hetccl_fail(HETCCL_ERR_INTERNAL, "device cuda %d: the library's image has no kernel %s",
                       device->ordinal, name);
}
