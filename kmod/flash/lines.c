// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt lines. A line has a CPU, and a timer that fires there and nowhere else: that is the
 * interrupt. Whoever submits a command that is due before all others asks the line's CPU to set
 * its timer, by a call between CPUs, as a doorbell would. With PREEMPT_RT the timer's work is a
 * thread's, as that of every interrupt there (its mode says neither hard nor soft), and only the
 * line's own lock is taken in an interrupt.
 */
#include <linux/slab.h>

#include "flash.h"

/*
 * With PREEMPT_RT. Its end waits for the last function to have returned: a thread that was put
 * aside behind the count of what is in flight would return into a module that is gone.
 */
static struct workqueue_struct *flash_origins;

/* Whoever switches the drive off waits for in_flight, so that comes last. */
void flash_complete(struct flash_cmd *cmd)
{
	struct ssdb_flash_vector *vector = cmd->vector;
	struct flash *flash = cmd->flash;
	struct bio *bio = cmd->bio;

	if (cmd->rq) {
		blk_mq_end_request(cmd->rq, cmd->status);
	} else if (vector) {
		blk_status_t status = cmd->status;

		if (cmd->undo && !flash_undo_finish(cmd->undo))
			status = BLK_STS_IOERR;
		flash_slot_put(cmd);
		vector->done(vector, status);
	} else {
		/* Of a bio that was split, a part that has ended may have left its error. */
		if (cmd->status != BLK_STS_OK)
			bio->bi_status = cmd->status;
		bio_end_io_acct(bio, cmd->start_jiffies);
		flash_slot_put(cmd);
		bio_endio(bio);
	}
	atomic_dec(&flash->in_flight);
}

/* With PREEMPT_RT a thread does this, so that its locks may sleep: lockdep is told. */
static void flash_complete_at_origin(void *data)
{
	lockdep_hardirq_threaded();
	flash_complete(data);
}

static void flash_work_at_origin(struct work_struct *work)
{
	flash_complete(container_of(work, struct flash_cmd, work));
}

/*
 * On the CPU that submitted it. With PREEMPT_RT what a call between CPUs runs must not take the
 * locks that ending a request takes: a thread of that CPU does it.
 */
static void flash_return(struct flash_cmd *cmd)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		INIT_WORK(&cmd->work, flash_work_at_origin);
		queue_work_on(cmd->cpu, flash_origins, &cmd->work);
		return;
	}
	INIT_CSD(&cmd->csd, flash_complete_at_origin, cmd);
	if (smp_call_function_single_async(cmd->cpu, &cmd->csd))
		flash_complete(cmd);
}

/* Interrupt work of one command, on the line's CPU. */
static void flash_interrupt(struct flash_cmd *cmd)
{
	if (!cmd->flash->options.return_to_origin || cmd->cpu == smp_processor_id() ||
	    !cpu_online(cmd->cpu))
		flash_complete(cmd);
	else
		flash_return(cmd);
}

/* When the line is to interrupt next, with its lock held; KTIME_MAX when nothing waits. */
static ktime_t flash_line_next(struct flash_line *line)
{
	const struct flash_options *options = &line->flash->options;
	struct timerqueue_node *node = timerqueue_getnext(&line->due);
	ktime_t first, last;
	u32 n;

	if (!node)
		return KTIME_MAX;
	first = node->expires;
	switch (options->completion) {
	case FLASH_DEFERRED:
		return first + (s64)options->defer_ns;
	case FLASH_ADAPTIVE:
		return first + (line->waiting >= options->adaptive_depth ?
				(s64)options->defer_ns : 0);
	case FLASH_COALESCED:
		last = first + (s64)options->coalesce_ns;
		for (n = 1; n < options->coalesce_count && node; n++)
			node = timerqueue_iterate_next(node);
		return node ? min(node->expires, last) : last;
	default:
		return first;
	}
}

/*
 * With the line's lock held, which two CPUs may want at once when the line's own is taken away: a
 * timer that another CPU has started must not be restarted by what its handler returns.
 */
static void flash_line_set(struct flash_line *line)
{
	ktime_t next = flash_line_next(line);

	if (next != KTIME_MAX)
		hrtimer_start(&line->timer, next, HRTIMER_MODE_ABS_PINNED);
}

static enum hrtimer_restart flash_line_fire(struct hrtimer *timer)
{
	struct flash_line *line = container_of(timer, struct flash_line, timer);
	struct timerqueue_node *node;
	unsigned long flags;
	LIST_HEAD(done);

	raw_spin_lock_irqsave(&line->lock, flags);
	line->interrupts++;
	while ((node = timerqueue_getnext(&line->due)) && node->expires <= ktime_get()) {
		struct flash_cmd *cmd = container_of(node, struct flash_cmd, node);

		timerqueue_del(&line->due, node);
		line->waiting--;
		list_add_tail(&cmd->polled, &done);
	}
	flash_line_set(line);
	raw_spin_unlock_irqrestore(&line->lock, flags);

	while (!list_empty(&done)) {
		struct flash_cmd *cmd = list_first_entry(&done, struct flash_cmd, polled);

		list_del(&cmd->polled);
		flash_interrupt(cmd);
	}
	return HRTIMER_NORESTART;
}

/* On the line's CPU, interrupts off. */
static void flash_line_arm(void *data)
{
	struct flash_line *line = data;
	unsigned long flags;

	raw_spin_lock_irqsave(&line->lock, flags);
	line->arming = false;
	flash_line_set(line);
	raw_spin_unlock_irqrestore(&line->lock, flags);
}

static void flash_line_add(struct flash_line *line, struct flash_cmd *cmd, u64 due_ns)
{
	unsigned long flags;
	bool ask;

	timerqueue_init(&cmd->node);
	cmd->node.expires = ns_to_ktime(due_ns);
	raw_spin_lock_irqsave(&line->lock, flags);
	line->waiting++;
	/* Coalescing and adapting may bring the interrupt forward with any command. */
	ask = timerqueue_add(&line->due, &cmd->node) ||
	      line->flash->options.completion == FLASH_COALESCED;
	ask = ask && !line->arming;
	line->arming |= ask;
	raw_spin_unlock_irqrestore(&line->lock, flags);
	if (!ask)
		return;
	preempt_disable();
	if (line->cpu == smp_processor_id() || !cpu_online(line->cpu)) {
		local_irq_save(flags);
		flash_line_arm(line);
		local_irq_restore(flags);
	} else {
		smp_call_function_single_async(line->cpu, &line->arm);
	}
	preempt_enable();
}

static struct flash_line *flash_line_of(struct flash *flash, int cpu, u32 tag)
{
	switch (flash->options.lines) {
	case FLASH_LINE_PER_CPU:
		return &flash->lines[cpu];
	case FLASH_TWO_LINES:
		return &flash->lines[tag & 1];
	default:
		return &flash->lines[0];
	}
}

/* Whether the device was done before this CPU was kept for too long. */
static bool flash_spin(u64 due_ns)
{
	u64 now_ns = ktime_get_ns(), end_ns = min(due_ns, now_ns + FLASH_MAX_SPIN_NS);

	while (now_ns < end_ns) {
		cpu_relax();
		now_ns = ktime_get_ns();
	}
	return now_ns >= due_ns;
}

void flash_report(struct flash_cmd *cmd, u64 due_ns, u32 tag)
{
	struct flash *flash = cmd->flash;

	cmd->cpu = raw_smp_processor_id();
	atomic_inc(&flash->in_flight);
	switch (flash->options.completion) {
	case FLASH_INLINE:
		flash_complete(cmd);
		break;
	case FLASH_SOFTIRQ:
		if (cmd->rq)
			blk_mq_complete_request(cmd->rq);
		else
			flash_complete(cmd);
		break;
	case FLASH_SPIN:
		if (flash_spin(due_ns)) {
			flash_complete(cmd);
			break;
		}
		fallthrough;
	default:
		flash_line_add(flash_line_of(flash, cmd->cpu, tag), cmd, due_ns);
	}
}

int flash_lines_init(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return 0;
	flash_origins = alloc_workqueue("ssdb_flash",
					WQ_HIGHPRI | WQ_MEM_RECLAIM | SSDB_WQ_PERCPU, 0);
	return flash_origins ? 0 : -ENOMEM;
}

void flash_lines_exit(void)
{
	if (flash_origins)
		destroy_workqueue(flash_origins);
}

int flash_lines_create(struct flash *flash)
{
	u32 i;

	flash->nr_lines = flash->options.lines == FLASH_LINE_PER_CPU ? nr_cpu_ids :
			  flash->options.lines == FLASH_TWO_LINES ? 2 : 1;
	flash->lines = kcalloc(flash->nr_lines, sizeof(*flash->lines), GFP_KERNEL);
	if (!flash->lines)
		return -ENOMEM;
	for (i = 0; i < flash->nr_lines; i++) {
		struct flash_line *line = &flash->lines[i];

		raw_spin_lock_init(&line->lock);
		timerqueue_init_head(&line->due);
		ssdb_hrtimer_setup(&line->timer, flash_line_fire, CLOCK_MONOTONIC,
				   HRTIMER_MODE_ABS_PINNED);
		INIT_CSD(&line->arm, flash_line_arm, line);
		line->flash = flash;
		line->cpu = flash->options.lines == FLASH_LINE_PER_CPU ? (int)i :
			    i ? (int)flash->options.irq_cpu2 : (int)flash->options.irq_cpu;
	}
	return 0;
}

/* Whether a call to arm the line is on its way, or at work: it ends with the lock. */
static bool flash_line_arming(struct flash_line *line)
{
	bool arming;

	raw_spin_lock_irq(&line->lock);
	arming = line->arming;
	raw_spin_unlock_irq(&line->lock);
	return arming;
}

void flash_lines_destroy(struct flash *flash)
{
	u32 i;

	/* The disk is gone, so nothing is in flight. */
	for (i = 0; flash->lines && i < flash->nr_lines; i++) {
		while (flash_line_arming(&flash->lines[i]))
			cpu_relax();
		hrtimer_cancel(&flash->lines[i].timer);
	}
	kfree(flash->lines);
	flash->lines = NULL;
}
