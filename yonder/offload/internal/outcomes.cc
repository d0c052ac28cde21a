#include "yonder/offload/internal/outcomes.h"

#include <signal.h>

namespace yonder::offload::internal {

Error error_of(Verdict verdict, std::int64_t detail) {
  switch (verdict) {
    case Verdict::kDone:
      return {ErrorCode::kOk, "offload: done"};
    case Verdict::kFailed:
      return {ErrorCode::kFunctionFailed, "offload: the function failed", detail};
    case Verdict::kThrew:
      return {ErrorCode::kFunctionCrashed, "offload: an exception left the function"};
    case Verdict::kBadArguments:
      return {ErrorCode::kBadRequest, "offload: the function takes other arguments"};
    case Verdict::kNoMemory:
      return {ErrorCode::kFunctionMemory, "offload: the function wants more memory than it may have"};
    case Verdict::kResultTooLong:
      return {ErrorCode::kMessageTooLong, "offload: the function's result"};
    case Verdict::kUnknown:
      return {ErrorCode::kUnknownFunction, "offload: the library has no such function"};
    case Verdict::kWrongVersion:
      return {ErrorCode::kFunctionVersion, "offload: the function has another version", detail};
    case Verdict::kForbidden:
      return {ErrorCode::kFunctionForbidden, "offload: a system call of the function", detail};
    case Verdict::kBadLibrary:
      return {ErrorCode::kUnknownFunction, "offload: the library cannot be loaded", detail};
    case Verdict::kNoPlace:
      return {ErrorCode::kAlreadyExists, "offload: the memory's address is taken in the worker", detail};
  }
  return {ErrorCode::kFunctionCrashed, "offload: what a worker said"};
}

Error error_of(const os::ExitStatus& status) {
  if (status.signalled && status.value == SIGSYS)
    return {ErrorCode::kFunctionForbidden, "offload: a system call of the function"};
  return {ErrorCode::kFunctionCrashed, "offload: the function's process ended",
          status.signalled ? status.value : 0};
}

}  // namespace yonder::offload::internal
