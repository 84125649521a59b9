// SPDX-License-Identifier: GPL-2.0-only
/*
 * The schedulers' pure parts in user space: `bpref_test CASE` runs one case, `bpref_test` names
 * them all. Built with the sanitizers by tests/unit/kmod.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bpref/choose.h"
#include "../bpref/slice.h"
#include "../bpref/think.h"

#define CHECK(condition)								\
	do {										\
		if (!(condition)) {							\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);	\
			exit(1);							\
		}									\
	} while (0)

#define BLOCK 2048u	/* sectors: 1 MiB */
#define MS 1000000ull

static const struct bpref_grid grid = { BLOCK, 0 };

/* The last request ended at `end`; what follows are starts and lengths, nearest first. */
static enum bpref_choice choose(u64 end, struct bpref_span f0, struct bpref_span f1,
				struct bpref_span b0, struct bpref_span b1)
{
	struct bpref_window window = {
		.front = { f0, f1 },
		.back = { b0, b1 },
		.last_end = end,
		.block = bpref_block_at(&grid, end - 1),
	};

	return bpref_choose_block(&window, &grid);
}

#define AT(start, sectors) ((struct bpref_span) { start, sectors })
#define NO ((struct bpref_span) { 0, 0 })

static void case_1_takes_the_larger_of_two_in_the_block(void)
{
	CHECK(choose(1000, AT(1100, 8), NO, AT(900, 16), NO) == BPREF_BACK);
	CHECK(choose(1000, AT(1100, 16), NO, AT(900, 8), NO) == BPREF_FRONT);
	CHECK(choose(1000, AT(1010, 8), NO, AT(900, 8), NO) == BPREF_FRONT);
	CHECK(choose(1000, AT(1900, 8), NO, AT(980, 8), NO) == BPREF_BACK);
}

static void case_2_stays_in_the_block_whatever_is_nearer_or_larger(void)
{
	CHECK(choose(2040, AT(2048, 64), NO, AT(10, 1), NO) == BPREF_BACK);
	CHECK(choose(2050, AT(4000, 1), NO, AT(2040, 64), NO) == BPREF_FRONT);
}

static void case_3_goes_where_the_next_two_share_a_block(void)
{
	CHECK(choose(5000, AT(7000, 1), AT(7100, 1), AT(4000, 9), AT(1000, 9)) == BPREF_FRONT);
	CHECK(choose(5000, AT(7000, 9), AT(9000, 9), AT(4000, 1), AT(3000, 1)) == BPREF_BACK);
	CHECK(choose(5000, AT(7000, 1), AT(7100, 1), AT(4000, 9), NO) == BPREF_FRONT);
}

static void case_4_takes_the_larger_pair(void)
{
	CHECK(choose(5000, AT(7000, 8), AT(7100, 8), AT(4000, 8), AT(3000, 16)) == BPREF_BACK);
	CHECK(choose(5000, AT(7000, 8), AT(7100, 24), AT(4000, 8), AT(3000, 16)) == BPREF_FRONT);
}

static void when_every_order_crosses_it_goes_to_the_nearer(void)
{
	CHECK(choose(5000, AT(7000, 8), NO, AT(4000, 8), NO) == BPREF_BACK);
	CHECK(choose(6100, AT(6200, 8), NO, AT(4000, 8), NO) == BPREF_FRONT);
	CHECK(choose(4096, AT(4096, 8), NO, AT(1000, 8), NO) == BPREF_FRONT);
}

static void one_side_alone_is_taken_and_none_is_none(void)
{
	CHECK(choose(100, AT(90000, 1), NO, NO, NO) == BPREF_FRONT);
	CHECK(choose(90000, NO, NO, AT(100, 1), NO) == BPREF_BACK);
	CHECK(choose(100, NO, NO, NO, NO) == BPREF_NONE);
}

/* All of figure 21 of Dunn 2009, searched in full: no other first step has fewer crossings of the pair. */
static void no_step_has_fewer_crossings_than_the_chosen(void)
{
	u64 f0, f1, b0, b1;

	for (f0 = 8; f0 < 24; f0++)
		for (f1 = f0 + 1; f1 < 25; f1++)
			for (b0 = 0; b0 < 8; b0++)
				for (b1 = 0; b1 < b0; b1++) {
					struct bpref_grid small = { 4, 2 };
					struct bpref_window w = {
						.front = { AT(f0, 1), AT(f1, 1) },
						.back = { AT(b0, 1), AT(b1, 1) },
						.last_end = 8,
						.block = bpref_block_at(&small, 7),
					};
					struct bpref_block f = bpref_block_at(&small, f0);
					struct bpref_block b = bpref_block_at(&small, b0);
					int front = !bpref_within(&w.block, f0);
					int back = !bpref_within(&w.block, b0);
					enum bpref_choice got = bpref_choose_block(&w, &small);

					if (front && back) {	/* then the second ones count */
						front += !bpref_within(&f, f1);
						back += !bpref_within(&b, b1);
					}
					if (front != back)
						CHECK((got == BPREF_FRONT) == (front < back));
				}
}

/*
 * What an order can save at all: of 64 queued writes of 4 KiB at random places of 128 blocks, each
 * replaced when it has been served, how many of 1,000 leave the block of the one before.
 */
#define QUEUED 64
#define BLOCKS 128u
#define SERVED 50000u

enum order { ARRIVAL, ONE_WAY, PREFERENCE };

struct waiting {
	u64 at[QUEUED];		/* sorted */
	u64 came[QUEUED];
	u64 arrivals;
	u64 random;
};

static u64 next_place(struct waiting *w)
{
	w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
	return (w->random >> 33) % (BLOCKS * BLOCK / 8) * 8;
}

/* A new one takes the place of the one that has been served. */
static void replace(struct waiting *w, unsigned int i)
{
	u64 at = next_place(w);

	for (; i && w->at[i - 1] > at; i--) {
		w->at[i] = w->at[i - 1];
		w->came[i] = w->came[i - 1];
	}
	for (; i + 1 < QUEUED && w->at[i + 1] < at; i++) {
		w->at[i] = w->at[i + 1];
		w->came[i] = w->came[i + 1];
	}
	w->at[i] = at;
	w->came[i] = w->arrivals++;
}

static unsigned int served_next(const struct waiting *w, enum order order, u64 last_end)
{
	unsigned int front = 0, i, oldest = 0;
	struct bpref_window window = { .last_end = last_end };
	enum bpref_choice choice;

	for (i = 1; i < QUEUED; i++)
		if (w->came[i] < w->came[oldest])
			oldest = i;
	if (order == ARRIVAL)
		return oldest;
	while (front < QUEUED && w->at[front] < last_end)
		front++;
	for (i = 0; i < 2; i++) {
		if (front + i < QUEUED)
			window.front[i] = AT(w->at[front + i], 8);
		if (front > i)
			window.back[i] = AT(w->at[front - 1 - i], 8);
	}
	if (last_end)
		window.block = bpref_block_at(&grid, last_end - 1);
	choice = order == ONE_WAY ? bpref_choose_oneway(&window, 1 << 20) :
				    bpref_choose_block(&window, &grid);
	return choice == BPREF_FRONT ? front : choice == BPREF_BACK ? front - 1 : 0;
}

static unsigned int crossings_of_1000(enum order order)
{
	struct waiting w = { .random = 1 };
	u64 last_end = 0, crossings = 0;
	unsigned int i;

	for (i = 0; i < QUEUED; i++)
		w.at[i] = i;	/* nowhere yet: the first ones served do not count */
	for (i = 0; i < SERVED; i++) {
		unsigned int next = served_next(&w, order, last_end);

		crossings += !last_end || w.at[next] / BLOCK != (last_end - 1) / BLOCK;
		last_end = w.at[next] + 8;
		replace(&w, next);
	}
	return 1000 * crossings / SERVED;
}

static void of_scattered_writes_preference_saves_what_any_sort_saves(void)
{
	unsigned int arrival = crossings_of_1000(ARRIVAL);
	unsigned int one_way = crossings_of_1000(ONE_WAY);
	unsigned int preference = crossings_of_1000(PREFERENCE);

	printf("of 1000: arrival %u, one way %u, preference %u\n", arrival, one_way, preference);
	CHECK(arrival > 950);
	CHECK(one_way < 700);
	CHECK(preference <= one_way && 100 * preference > 95 * one_way);
}

static void blocks_tile_the_drive_from_the_phase_on(void)
{
	struct bpref_grid odd = { 2000, 63 };
	struct bpref_block block = bpref_block_at(&odd, 62);
	u64 sector;

	CHECK(block.begin == 0 && block.end == 63);
	for (sector = 63; sector < 20000; sector++) {
		block = bpref_block_at(&odd, sector);
		CHECK(bpref_within(&block, sector));
		CHECK((block.begin - 63) % 2000 == 0 && block.end - block.begin == 2000);
	}
	odd.block_sectors = 0;
	block = bpref_block_at(&odd, 5);
	CHECK(!bpref_within(&block, 5));
}

static enum bpref_choice oneway(u64 end, struct bpref_span front, struct bpref_span back, u64 max)
{
	struct bpref_window window = { .front = { front }, .back = { back }, .last_end = end };

	return bpref_choose_oneway(&window, max);
}

static void the_elevator_goes_up_and_back_only_a_little(void)
{
	CHECK(oneway(1000, AT(1200, 8), AT(950, 8), 500) == BPREF_BACK);
	CHECK(oneway(1000, AT(1100, 8), AT(950, 8), 500) == BPREF_FRONT);
	CHECK(oneway(1000, AT(9000, 8), AT(400, 8), 500) == BPREF_FRONT);
	CHECK(oneway(1000, NO, AT(600, 8), 500) == BPREF_BACK);
	CHECK(oneway(1000, NO, AT(400, 8), 500) == BPREF_WRAP);
	CHECK(oneway(1000, AT(1000, 8), NO, 0) == BPREF_FRONT);
	CHECK(oneway(1000, NO, NO, 500) == BPREF_NONE);
}

static void thinking_time_comes_to_the_true_mean(void)
{
	struct think_newcomers newcomers = { 0 };
	struct think think = { 0 };
	int i;

	for (i = 0; i < 100; i++)
		think_returned(&think, &newcomers, 2 * MS, 1000 * MS);
	CHECK(think.mean_ns > 1990000 && think.mean_ns < 2010000);
	CHECK(think_worth_waiting(&think, &newcomers, 6 * MS));
	CHECK(!think_worth_waiting(&think, &newcomers, MS));
	think_add(&think, ~0ull, 1000 * MS);	/* a pause of centuries is cut */
	CHECK(think.mean_ns < 200 * MS);
}

static void processes_that_never_come_back_are_not_waited_for(void)
{
	struct think_newcomers newcomers = { 0 };
	struct think fresh = { 0 };
	int i;

	CHECK(think_worth_waiting(&fresh, &newcomers, 6 * MS));
	for (i = 0; i < 20; i++)
		think_left(&fresh, &newcomers, false);
	CHECK(think_worth_waiting(&fresh, &newcomers, 6 * MS));	/* others may go on for them */
	for (i = 0; i < 20; i++)
		think_left(&fresh, &newcomers, true);
	CHECK(!think_worth_waiting(&fresh, &newcomers, 6 * MS));
	for (i = 0; i < 20; i++) {
		struct think other = { 0 };

		think_returned(&other, &newcomers, MS, 1000 * MS);
	}
	CHECK(think_worth_waiting(&fresh, &newcomers, 6 * MS));
}

static void what_is_close_doubles_with_each_ms_and_is_half_as_far_behind(void)
{
	struct think_newcomers newcomers = { 0 };
	struct think_seek seek = { 0 };
	const u64 at = 1 << 20;

	CHECK(think_close(&seek, &newcomers, at, at + 8192, 0));
	CHECK(!think_close(&seek, &newcomers, at, at + 8193, 0));
	CHECK(!think_close(&seek, &newcomers, at, at + 8193, MS - 1));
	CHECK(think_close(&seek, &newcomers, at, at + 2 * 8192, MS));
	CHECK(!think_close(&seek, &newcomers, at, at + 2 * 8192 + 1, MS));
	CHECK(think_close(&seek, &newcomers, at, at + 32 * 8192, 5 * MS));
	CHECK(think_close(&seek, &newcomers, at, at - 4096, 0));
	CHECK(!think_close(&seek, &newcomers, at, at - 4097, 0));
	CHECK(think_close(&seek, &newcomers, 0, 4096, 0));
	CHECK(think_close(&seek, &newcomers, 0, ~0ull, 21 * MS));
}

static void a_process_that_seeks_finds_more_close(void)
{
	struct think_newcomers newcomers = { 0 };
	struct think_seek seek = { 0 };
	int i;

	CHECK(!think_valid(seek.weight));
	for (i = 0; i < 60; i++)
		think_sought(&seek, &newcomers, 100000);
	CHECK(think_valid(seek.weight));
	CHECK(seek.mean > 99000 && seek.mean < 101000);
	CHECK(think_close(&seek, &newcomers, 0, 98000, 0));
	CHECK(!think_close(&seek, &newcomers, 0, 102000, 0));
	think_sought(&seek, &newcomers, 1ull << 40);	/* an odd one is cut */
	CHECK(seek.mean < 200000);
}

static void slices_follow_priority(void)
{
	CHECK(slice_ns(100 * MS, 4) == 100 * MS);
	CHECK(slice_ns(100 * MS, 0) == 180 * MS);
	CHECK(slice_ns(100 * MS, 7) == 40 * MS);
	CHECK(slice_ns(100 * MS, 99) == 40 * MS);
}

static void write_batches_come_to_their_time_and_never_to_nothing(void)
{
	u32 batch = 1000, i;

	for (i = 0; i < 60; i++)	/* a drive of 5 ms a write: 25 fit 125 ms */
		batch = slice_write_batch(batch, 0, batch * 5 * MS, 125 * MS, false);
	CHECK(batch >= 23 && batch <= 27);
	CHECK(slice_write_batch(1, 0, 900 * MS, 125 * MS, false) == 1);
	CHECK(slice_write_batch(8, 3, 10 * MS, 125 * MS, false) == 8);
	CHECK(slice_write_batch(8, 0, 900 * MS, 125 * MS, true) == 8);
	for (i = 0; i < 60; i++)
		batch = slice_write_batch(batch, 0, 0, 125 * MS, false);
	CHECK(batch == 1 << 20);
}

#define CASE(name) { #name, name }

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	CASE(case_1_takes_the_larger_of_two_in_the_block),
	CASE(case_2_stays_in_the_block_whatever_is_nearer_or_larger),
	CASE(case_3_goes_where_the_next_two_share_a_block),
	CASE(case_4_takes_the_larger_pair),
	CASE(when_every_order_crosses_it_goes_to_the_nearer),
	CASE(one_side_alone_is_taken_and_none_is_none),
	CASE(no_step_has_fewer_crossings_than_the_chosen),
	CASE(of_scattered_writes_preference_saves_what_any_sort_saves),
	CASE(blocks_tile_the_drive_from_the_phase_on),
	CASE(the_elevator_goes_up_and_back_only_a_little),
	CASE(thinking_time_comes_to_the_true_mean),
	CASE(processes_that_never_come_back_are_not_waited_for),
	CASE(what_is_close_doubles_with_each_ms_and_is_half_as_far_behind),
	CASE(a_process_that_seeks_finds_more_close),
	CASE(slices_follow_priority),
	CASE(write_batches_come_to_their_time_and_never_to_nothing),
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	unsigned int i, ran = 0;

	for (i = 0; cases[i].name; i++) {
		if (argc < 2) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			ran++;
		}
	}
	return argc < 2 || ran ? 0 : 2;
}
