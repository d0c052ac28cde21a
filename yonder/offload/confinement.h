#pragma once
// How a worker gives up what it may do, before a function of somebody else runs in it.
//
// Each step is for ever. In this order: rights, then memory and files, then system calls.
//
//   drop_rights()    no capability, no new privilege by exec, no core file, no debugger of
//                    the same user, death with the process that started it
//   limit_memory()   address space: what is mapped now and `bytes` more; no new descriptor,
//                    no byte in a file, no process
//   forbid_calls()   an allow-list of system calls (seccomp): memory that is anonymous and
//                    not executable, time, random numbers, ending; reading and writing of
//                    the channel. Everything else raises SIGSYS.
//
// Errors of all: kUnsupported (a kernel without seccomp), kOsError.
//
// Concurrency: a process with one thread.

#include <cstdint>

#include "yonder/base/result.h"

namespace yonder::offload {

Result<void> drop_rights();
Result<void> limit_memory(std::uint64_t bytes);
// `channel`: the descriptor that may still be read and written. `notes`: one that may be
// written, for what the C++ library says when it ends a program.
struct OpenFiles {
  int channel = 0;
  int notes = 2;
};
Result<void> forbid_calls(OpenFiles files);

}  // namespace yonder::offload
