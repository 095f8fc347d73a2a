/* A library with only a driver's first function, like a driver that is too old.
 * SPDX-License-Identifier: Apache-2.0 */
int cuInit(unsigned flags);
int hipInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int hipInit(unsigned flags) { return (int)flags; }
