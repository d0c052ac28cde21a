# Build options and the two interface targets that carry flags.
#
# Flags live on interface targets and not in CMAKE_CXX_FLAGS, so that a target
# says itself what it is built with and an installed package exports none of it.

option(YONDER_BUILD_TESTS "Build the tests" ON)
option(YONDER_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
option(YONDER_WERROR "Treat warnings as errors" ON)
set(YONDER_SANITIZE "" CACHE STRING "Value of -fsanitize= for every target, e.g. address,undefined")
# Every file of ours begins with the same standard headers, and to read them is most of the work:
# a library compiled in a few pieces takes a third of the time (clang, ThreadSanitizer: 3.3 minutes of
# CPU instead of 9). For builds that start from nothing, as those of CI under sanitizers do; the
# others compile file by file, which finds a missing include.
option(YONDER_UNITY "Compile each library in a few pieces" OFF)
option(YONDER_COVERAGE "Instrument for coverage" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# RelWithDebInfo is what we develop and test with: YONDER_DCHECK stays on. Only
# Release, which users run, defines NDEBUG.
# -g1: file and line, which is what a report of a sanitizer or a backtrace needs;
# variables too (-g) cost a fifth of g++'s compile time. Debug has them.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# The release is optimised across files: a call passes through four libraries, and
# without their borders it takes a tenth less time (docs/performance.md). Fat
# objects, so that an installed archive can be linked by any compiler.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_CXX_COMPILE_OPTIONS_IPO -flto=auto -ffat-lto-objects)
endif()

find_program(YONDER_CCACHE ccache)
if(YONDER_CCACHE)
  # Absolute paths would make two clones miss each other's cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${YONDER_CCACHE})
endif()

# One precompiled gtest.h for all tests spares a quarter of their compile time (31
# tests, CPU time: 74 s without, 55 s with), and ccache still hits between clones.
# g++ only: a precompiled header of clang names the clone it was made in, so a
# cached one would break when that clone is gone.
set(YONDER_TEST_PCH OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(YONDER_TEST_PCH ON)
endif()

add_library(yonder_warnings INTERFACE)
target_compile_options(yonder_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align
  -Woverloaded-virtual -Wimplicit-fallthrough -Wextra-semi -Wundef
  # Options structs are filled by name; what is left out has its default.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Thread-safety annotations are checked by clang only.
  target_compile_options(yonder_warnings INTERFACE -Wthread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 at -O3 sees overlapping copies in std::string's operator+ where there
  # are none (its bug 105651).
  target_compile_options(yonder_warnings INTERFACE -Wno-restrict)
endif()
if(YONDER_WERROR)
  target_compile_options(yonder_warnings INTERFACE -Werror)
endif()

add_library(yonder_sanitizers INTERFACE)
if(YONDER_SANITIZE)
  target_compile_options(yonder_sanitizers INTERFACE
    -fsanitize=${YONDER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(yonder_sanitizers INTERFACE -fsanitize=${YONDER_SANITIZE})
endif()
if(YONDER_COVERAGE)
  target_compile_options(yonder_sanitizers INTERFACE --coverage)
  target_link_options(yonder_sanitizers INTERFACE --coverage)
endif()
