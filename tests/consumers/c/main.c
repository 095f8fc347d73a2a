/* A program in C that was told nothing of C++.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../consumer.h"

int main(void) { return consumer_main(); }
