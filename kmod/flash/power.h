/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FLASH_POWER_H
#define FLASH_POWER_H

struct flash;

/*
 * Both with flash->lock held. flash_power_on() makes the disk appear: -EINVAL for parameters that
 * contradict each other (the sentence goes to the kernel log), -ENOMEM, -EEXIST for the name.
 */
int flash_power_on(struct flash *flash);
void flash_power_off(struct flash *flash);

#endif
