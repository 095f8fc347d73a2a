/* A library that has a driver's first function and no other: a driver from before what is needed.
 * SPDX-License-Identifier: Apache-2.0 */
int cuInit(unsigned flags);
int hipInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int hipInit(unsigned flags) { return (int)flags; }
