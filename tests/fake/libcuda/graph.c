/* SPDX-License-Identifier: Apache-2.0 */

/* Graphs and their launches. A launch is one operation of its stream; branches of the graph run at once. */

#include <stdatomic.h>
#include <stdlib.h>

#include "fake.h"

struct CUgraph_st {
    struct CUgraph_st *next;
    struct fake_nodes *nodes;
};

struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    struct fake_nodes *nodes;
    unsigned n_refs; /* its handle, and launches that aren't done */
    bool is_running; /* launches of one executable graph take turns */
};

static struct CUgraph_st *graphs;
static struct CUgraphExec_st *execs;

void fake_nodes_put(struct fake_nodes *nodes)
{
    if (--nodes->n_refs > 0)
        return;
    for (size_t i = 0; i < nodes->n_nodes; i++) {
        fake_launch_free(nodes->list[i].op.launch);
        fake_tail_clear(&nodes->list[i].after);
    }
    free(nodes->list);
    free(nodes);
}

struct CUgraph_st *fake_graph_new(struct fake_nodes *nodes)
{
    struct CUgraph_st *graph = fake_need(calloc(1, sizeof(*graph)));

    nodes->n_refs++;
    *graph = (struct CUgraph_st){.next = graphs, .nodes = nodes};
    graphs = graph;
    return graph;
}

void fake_exec_put(struct CUgraphExec_st *exec)
{
    if (exec == NULL || --exec->n_refs > 0)
        return;
    fake_nodes_put(exec->nodes);
    free(exec);
}

size_t fake_graph_count(void)
{
    size_t n = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct CUgraph_st *graph = graphs; graph != NULL; graph = graph->next)
        n++;
    for (const struct CUgraphExec_st *exec = execs; exec != NULL; exec = exec->next)
        n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

/* One run of a graph, and one lane of it. */
struct run {
    struct CUctx_st *context;
    const struct fake_nodes *nodes;
    bool *is_done;
};

struct lane {
    const struct run *run;
    size_t index;
    pthread_t thread;
};

static void wait_for(const struct run *run, const struct fake_tail *after)
{
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < after->n_nodes; i++) {
        while (!run->is_done[after->nodes[i]])
            pthread_cond_wait(&fake_changed, &fake_lock);
    }
    pthread_mutex_unlock(&fake_lock);
}

static void *run_lane(void *arg)
{
    const struct lane *lane = arg;
    const struct run *run = lane->run;

    for (size_t i = 0; i < run->nodes->n_nodes; i++) {
        const struct fake_node *node = &run->nodes->list[i];

        if (node->lane != lane->index)
            continue;
        wait_for(run, &node->after);
        fake_run_op(run->context, &node->op);
        pthread_mutex_lock(&fake_lock);
        run->is_done[i] = true;
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
    }
    return NULL;
}

static void run_nodes(struct CUctx_st *context, const struct fake_nodes *nodes)
{
    struct run run = {context, nodes, fake_need(calloc(nodes->n_nodes + 1, sizeof(bool)))};
    struct lane *lanes = fake_need(calloc(nodes->n_lanes + 1, sizeof(*lanes)));

    for (size_t i = 0; i < nodes->n_lanes; i++) {
        lanes[i].run = &run;
        lanes[i].index = i;
        if (i > 0 && pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) != 0)
            abort();
    }
    if (nodes->n_lanes > 0)
        (void)run_lane(&lanes[0]);
    for (size_t i = 1; i < nodes->n_lanes; i++)
        (void)pthread_join(lanes[i].thread, NULL);
    free(lanes);
    free(run.is_done);
}

static bool is_ready(const struct run *run, size_t node)
{
    const struct fake_tail *after = &run->nodes->list[node].after;

    for (size_t i = 0; i < after->n_nodes; i++) {
        if (!run->is_done[after->nodes[i]])
            return false;
    }
    return !run->is_done[node];
}

/* The first or the last node that is ready. */
static size_t next_node(const struct run *run, bool is_last_first)
{
    size_t n_nodes = run->nodes->n_nodes;

    for (size_t k = 0; k < n_nodes; k++) {
        size_t node = is_last_first ? n_nodes - 1 - k : k;

        if (is_ready(run, node))
            return node;
    }
    abort();
}

/* All in one queue: launches take turns at two of the orders that the graph's edges allow. */
static void run_in_one_queue(struct CUctx_st *context, const struct fake_nodes *nodes)
{
    static atomic_uint n_launches;
    struct run run = {context, nodes, fake_need(calloc(nodes->n_nodes + 1, sizeof(bool)))};
    bool is_last_first = atomic_fetch_add(&n_launches, 1) % 2 == 0;

    for (size_t n_done = 0; n_done < nodes->n_nodes; n_done++) {
        size_t next = next_node(&run, is_last_first);

        fake_run_op(context, &nodes->list[next].op);
        run.is_done[next] = true;
    }
    free(run.is_done);
}

static void set_running(struct CUgraphExec_st *exec, bool is_running)
{
    pthread_mutex_lock(&fake_lock);
    while (is_running && exec->is_running)
        pthread_cond_wait(&fake_changed, &fake_lock);
    exec->is_running = is_running;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

void fake_run_graph(struct CUctx_st *context, struct CUgraphExec_st *exec)
{
    set_running(exec, true);
    if (fake_has_one_queue())
        run_in_one_queue(context, exec->nodes);
    else
        run_nodes(context, exec->nodes);
    set_running(exec, false);
}

static struct CUgraph_st **find_graph(const struct CUgraph_st *graph)
{
    struct CUgraph_st **link = &graphs;

    while (*link != NULL && *link != graph)
        link = &(*link)->next;
    return link;
}

static struct CUgraphExec_st **find_exec(const struct CUgraphExec_st *exec)
{
    struct CUgraphExec_st **link = &execs;

    while (*link != NULL && *link != exec)
        link = &(*link)->next;
    return link;
}

unsigned cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                     unsigned long long flags)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUgraphExec_st *created;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (flags != 0 || *find_graph(graph) == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    } else {
        created = fake_need(calloc(1, sizeof(*created)));
        *created = (struct CUgraphExec_st){.next = execs, .nodes = graph->nodes, .n_refs = 1};
        graph->nodes->n_refs++;
        execs = created;
        *exec = created;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    struct fake_op op = {.kind = FAKE_GRAPH, .exec = exec};
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    code = *find_exec(exec) == NULL ? HETCCL_CUDA_ERROR_INVALID_VALUE : fake_enqueue_locked(stream, &op);
    if (code == 0)
        exec->n_refs++;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuGraphDestroy(struct CUgraph_st *graph)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUgraph_st **link;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    link = find_graph(graph);
    if (*link == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    } else {
        *link = graph->next;
        fake_nodes_put(graph->nodes);
        free(graph);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

unsigned cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
    unsigned code = fake_enter(__func__, FAKE_NEEDS_CONTEXT);
    struct CUgraphExec_st **link;

    if (code != 0)
        return code;
    pthread_mutex_lock(&fake_lock);
    link = find_exec(exec);
    if (*link == NULL) {
        code = HETCCL_CUDA_ERROR_INVALID_VALUE;
    } else {
        *link = exec->next;
        fake_exec_put(exec);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
