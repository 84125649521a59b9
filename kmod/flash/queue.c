// SPDX-License-Identifier: GPL-2.0-only
/* The drive behind blk-mq: hardware queues, tags, polling. */
#include <linux/module.h>

#include "flash.h"

static void flash_poll_add(struct flash *flash, struct flash_cmd *cmd, u32 queue, u64 due_ns)
{
	struct flash_poll_queue *poll = &flash->poll_queues[queue];

	cmd->cpu = raw_smp_processor_id();
	cmd->node.expires = ns_to_ktime(due_ns);
	atomic_inc(&flash->in_flight);
	spin_lock(&poll->lock);
	list_add_tail(&cmd->polled, &poll->commands);
	spin_unlock(&poll->lock);
}

/* Until the request times out. */
static void flash_lose(struct flash_cmd *cmd)
{
	atomic_inc(&cmd->flash->in_flight);
	WRITE_ONCE(cmd->lost, true);
}

/* Both ways that a driver has to put a request off, in turn. */
static blk_status_t flash_requeue(struct flash *flash, struct request *rq)
{
	if (atomic_inc_return(&flash->requeues) & 1)
		return BLK_STS_RESOURCE;
	blk_mq_requeue_request(rq, true);
	return BLK_STS_OK;
}

static blk_status_t flash_queue_rq(struct blk_mq_hw_ctx *hctx,
				   const struct blk_mq_queue_data *data)
{
	struct flash_cmd *cmd = blk_mq_rq_to_pdu(data->rq);
	struct flash *flash = hctx->queue->queuedata;
	struct request *rq = data->rq;
	blk_status_t status;
	u64 due_ns;

	cmd->flash = flash;
	cmd->rq = rq;
	cmd->bio = NULL;
	cmd->vector = NULL;
	cmd->lost = false;
	blk_mq_start_request(rq);
	if (flash_inject(flash, FLASH_REQUEUE))
		return flash_requeue(flash, rq);
	status = flash->zones ? flash_zone_request(flash, rq, &due_ns, &cmd->status) :
				flash_request(flash, rq, &due_ns, &cmd->status);
	if (status != BLK_STS_OK)
		return status;
	if (flash_inject(flash, FLASH_LOSE) || blk_should_fake_timeout(rq->q))
		flash_lose(cmd);
	else if (hctx->type == HCTX_TYPE_POLL)
		flash_poll_add(flash, cmd, hctx->queue_num, due_ns);
	else
		flash_report(cmd, due_ns, rq->tag);
	return BLK_STS_OK;
}

static int flash_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	struct flash *flash = hctx->queue->queuedata;
	struct flash_poll_queue *poll = &flash->poll_queues[hctx->queue_num];
	struct flash_cmd *cmd, *next;
	ktime_t now = ktime_get();
	LIST_HEAD(done);
	int found = 0;

	spin_lock(&poll->lock);
	list_for_each_entry_safe(cmd, next, &poll->commands, polled)
		if (cmd->node.expires <= now)
			list_move_tail(&cmd->polled, &done);
	spin_unlock(&poll->lock);
	list_for_each_entry_safe(cmd, next, &done, polled) {
		list_del(&cmd->polled);
		flash_complete(cmd);
		found++;
	}
	atomic64_inc(&flash->polls);
	return found;
}

static void flash_softirq_done(struct request *rq)
{
	flash_complete(blk_mq_rq_to_pdu(rq));
}

/*
 * Device time may be long on purpose; a request that waits for it has not timed out. But one that
 * was to be polled for, by a process that has stopped, would keep the drive from being removed.
 */
static enum blk_eh_timer_return flash_timeout(struct request *rq)
{
	struct flash_cmd *cmd = blk_mq_rq_to_pdu(rq);

	if (READ_ONCE(cmd->lost)) {
		cmd->status = BLK_STS_TIMEOUT;
		blk_mq_complete_request(rq);
		return BLK_EH_DONE;
	}
	if (rq->mq_hctx->type == HCTX_TYPE_POLL)
		flash_poll(rq->mq_hctx, NULL);
	return BLK_EH_RESET_TIMER;
}

static int flash_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	return flash_inject(data, FLASH_NO_QUEUE) ? -EFAULT : 0;
}

static void flash_map_type(struct blk_mq_tag_set *set, enum hctx_type type, u32 count, u32 offset)
{
	set->map[type].nr_queues = count;
	set->map[type].queue_offset = offset;
	if (count)
		blk_mq_map_queues(&set->map[type]);
}

static void flash_map_queues(struct blk_mq_tag_set *set)
{
	struct flash *flash = set->driver_data;
	/* When no others can be had, their number is that of before. */
	u32 poll = min(flash->options.poll_queues, set->nr_hw_queues - 1);

	flash_map_type(set, HCTX_TYPE_DEFAULT, set->nr_hw_queues - poll, 0);
	if (set->nr_maps > 1) {
		flash_map_type(set, HCTX_TYPE_READ, 0, 0);
		flash_map_type(set, HCTX_TYPE_POLL, poll, set->nr_hw_queues - poll);
	}
}

static const struct blk_mq_ops flash_mq_ops = {
	.queue_rq = flash_queue_rq,
	.complete = flash_softirq_done,
	.timeout = flash_timeout,
	.poll = flash_poll,
	.init_hctx = flash_init_hctx,
	.map_queues = flash_map_queues,
};

const struct block_device_operations flash_mq_fops = {
	.owner = THIS_MODULE,
	.report_zones = flash_report_zones,
};

/* As many as there may ever be: their number changes while the drive is on. */
static int flash_poll_queues_create(struct flash *flash)
{
	u32 queues = 2 * FLASH_MAX_QUEUES, i;

	flash->poll_queues = kcalloc(queues, sizeof(*flash->poll_queues), GFP_KERNEL);
	if (!flash->poll_queues)
		return -ENOMEM;
	for (i = 0; i < queues; i++) {
		spin_lock_init(&flash->poll_queues[i].lock);
		INIT_LIST_HEAD(&flash->poll_queues[i].commands);
	}
	return 0;
}

int flash_mq_create(struct flash *flash, const struct ssdb_limits *limits)
{
	struct blk_mq_tag_set *tags = &flash->tags;
	u32 queues = flash->options.queues + flash->options.poll_queues;
	int error;

	error = flash_poll_queues_create(flash);
	if (error)
		return error;
	memset(tags, 0, sizeof(*tags));
	tags->ops = &flash_mq_ops;
	tags->nr_hw_queues = queues;
	tags->nr_maps = flash->options.poll_queues ? HCTX_MAX_TYPES : 1;
	tags->queue_depth = flash->options.depth;
	tags->numa_node = NUMA_NO_NODE;
	tags->cmd_size = sizeof(struct flash_cmd);
	/* Making a page of the store may sleep, and waiting for a zone. */
	tags->flags = SSDB_MQ_F_SHOULD_MERGE |
		      (flash->options.store || flash->zones ? BLK_MQ_F_BLOCKING : 0);
	tags->driver_data = flash;
	error = blk_mq_alloc_tag_set(tags);
	if (error)
		goto out_free_poll_queues;
	flash->disk = ssdb_alloc_mq_disk(tags, limits, flash);
	if (IS_ERR(flash->disk)) {
		error = PTR_ERR(flash->disk);
		goto out_free_tags;
	}
	return 0;

out_free_tags:
	blk_mq_free_tag_set(tags);
out_free_poll_queues:
	kfree(flash->poll_queues);
	return error;
}

int flash_mq_resize(struct flash *flash, u32 queues, u32 poll_queues)
{
	struct flash_options *options = &flash->options;
	u32 before[] = { options->queues, options->poll_queues };
	u32 wanted = queues + poll_queues;

	if (options->mode != FLASH_MQ || !options->poll_queues != !poll_queues)
		return -EBUSY;
	if (flash->tags.nr_maps == 1)	/* as when the tags were made */
		wanted = min(wanted, nr_cpu_ids);
	options->queues = queues;
	options->poll_queues = poll_queues;
	blk_mq_update_nr_hw_queues(&flash->tags, wanted);
	if (flash->tags.nr_hw_queues == wanted)
		return 0;
	options->queues = before[0];
	options->poll_queues = before[1];
	blk_mq_update_nr_hw_queues(&flash->tags, flash->tags.nr_hw_queues);
	return -ENOMEM;
}

void flash_mq_destroy(struct flash *flash)
{
	/* Requests may be done before those that sent them are: wait for the latter, too. */
	blk_mq_quiesce_queue(flash->disk->queue);
	put_disk(flash->disk);
	blk_mq_free_tag_set(&flash->tags);
	kfree(flash->poll_queues);
	flash->poll_queues = NULL;
}
