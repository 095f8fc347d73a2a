// Replaces the terminate handler when libstdc++ is linked statically into the library. libstdc++'s own handler prints
// the type of the uncaught exception, and its demangler adds 45 KB. The program's own libstdc++ reports the program's
// exceptions.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <exception>

#ifdef __GLIBCXX__
void __gnu_cxx::__verbose_terminate_handler() { std::abort(); }
#endif
