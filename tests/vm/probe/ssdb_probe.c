// SPDX-License-Identifier: GPL-2.0-only
/*
 * What no kernel of a distribution lets a test do to our modules: `fail` page allocations of
 * ssdb_flash answer that there is no memory, and a wake-up by ssdb_slam begins `delay_ms` late.
 */
#include <linux/delay.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>

static atomic_t fail = ATOMIC_INIT(0);
static int delay_ms;

static int fail_set(const char *value, const struct kernel_param *kp)
{
	int count, error = kstrtoint(value, 0, &count);

	if (!error)
		atomic_set(&fail, count);
	return error;
}

static int fail_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&fail));
}

static const struct kernel_param_ops fail_ops = { .set = fail_set, .get = fail_get };
module_param_cb(fail, &fail_ops, NULL, 0644);
module_param(delay_ms, int, 0644);

static bool is_of(unsigned long address, const char *module)
{
	char symbol[KSYM_SYMBOL_LEN];

	sprint_symbol(symbol, address);
	return strstr(symbol, module);
}

static int page_made(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct page *page = (struct page *)regs_return_value(regs);

	if (atomic_read(&fail) <= 0 || !page ||
	    !is_of((unsigned long)get_kretprobe_retaddr(instance), "[ssdb_flash]") ||
	    atomic_dec_return(&fail) < 0)
		return 0;
	__free_page(page);
	regs_set_return_value(regs, 0);
	return 0;
}

static struct kretprobe pages = { .handler = page_made, .maxactive = 64 };

static int wakes_up(struct kprobe *probe, struct pt_regs *regs)
{
	if (delay_ms && is_of(*(unsigned long *)regs->sp, "[ssdb_slam]")) {
		pr_info("ssdb_probe: about to wake\n");
		mdelay(delay_ms);
		pr_info("ssdb_probe: wakes\n");
	}
	return 0;
}

static struct kprobe wake = { .pre_handler = wakes_up, .symbol_name = "__wake_up" };

static int __init probe_init(void)
{
	int error;

	pages.kp.symbol_name = "alloc_pages_noprof";
	error = register_kretprobe(&pages);
	if (error) {
		pages.kp.addr = NULL;
		pages.kp.symbol_name = "alloc_pages";	/* before Linux 6.10 */
		error = register_kretprobe(&pages);
	}
	if (error)
		return error;
	error = register_kprobe(&wake);
	if (error)
		unregister_kretprobe(&pages);
	return error;
}

static void __exit probe_exit(void)
{
	unregister_kprobe(&wake);
	unregister_kretprobe(&pages);
}

module_init(probe_init);
module_exit(probe_exit);

MODULE_DESCRIPTION("Faults for the tests of ssdbench's modules");
MODULE_LICENSE("GPL");
