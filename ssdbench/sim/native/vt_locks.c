// SPDX-License-Identifier: MIT
/*
 * Locks: try, and if it is taken, wait for its address in virtual time.
 *
 * The lock itself stays the C library's, so that what we do not see (trylock, destroy) agrees.
 */
#include "vt.h"
#include "vt_real.h"

#include <errno.h>

VT_EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	VT_REAL(pthread_mutex_lock);
	int error;

	if (!vt_is_actor())
		return real(m);
	while ((error = pthread_mutex_trylock(m)) == EBUSY)
		vt_block(m, VT_NEVER);
	return error;
}

VT_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	VT_REAL(pthread_mutex_unlock);
	int error = real(m);

	if (!error && vt_is_actor())
		vt_wake(m, false);
	return error;
}

VT_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	VT_REAL(pthread_rwlock_rdlock);
	int error;

	if (!vt_is_actor())
		return real(l);
	while ((error = pthread_rwlock_tryrdlock(l)) == EBUSY)
		vt_block(l, VT_NEVER);
	return error;
}

VT_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	VT_REAL(pthread_rwlock_wrlock);
	int error;

	if (!vt_is_actor())
		return real(l);
	while ((error = pthread_rwlock_trywrlock(l)) == EBUSY)
		vt_block(l, VT_NEVER);
	return error;
}

VT_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	VT_REAL(pthread_rwlock_unlock);
	int error = real(l);

	if (!error && vt_is_actor())
		vt_wake(l, true);
	return error;
}

static int wait_on(pthread_cond_t *c, pthread_mutex_t *m, u64 until_ns)
{
	bool woken;

	/* Nobody runs between the two steps, so no wake-up is lost. */
	pthread_mutex_unlock(m);
	woken = vt_block(c, until_ns);
	pthread_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

VT_EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	VT_REAL_VERSION(pthread_cond_wait, VT_COND_VERSION);

	return vt_is_actor() ? wait_on(c, m, VT_NEVER) : real(c, m);
}

VT_EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				     const struct timespec *until)
{
	VT_REAL_VERSION(pthread_cond_timedwait, VT_COND_VERSION);

	if (!vt_is_actor())
		return real(c, m, until);
	return wait_on(c, m, vt_from_timespec(until));
}

VT_EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	VT_REAL_VERSION(pthread_cond_signal, VT_COND_VERSION);

	if (!vt_is_actor())
		return real(c);
	vt_wake(c, false);
	return 0;
}

VT_EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	VT_REAL_VERSION(pthread_cond_broadcast, VT_COND_VERSION);

	if (!vt_is_actor())
		return real(c);
	vt_wake(c, true);
	return 0;
}
