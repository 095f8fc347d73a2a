/* A C program in a project without C++.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../consumer.h"

int main(void) { return consumer_main(); }
