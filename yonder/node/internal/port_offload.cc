// Functions that a node runs for its clients, on their extents.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "yonder/node/internal/port.h"
#include "yonder/node/offload_protocol.h"
#include "yonder/offload/host.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node::internal {

using protocol::CallFunction;
using protocol::CallFunctionRequest;

namespace {

// How the host knows an extent: a name that is used again is another memory.
std::string memory_name(TenantId tenant, std::string_view extent, std::uint64_t number) {
  return std::to_string(tenant.value()) + '/' + std::string(extent) + '#' + std::to_string(number);
}

// A peer's number may be anything; a day is more than any host allows.
Deadline deadline_of(std::uint64_t time_us) {
  const std::chrono::microseconds longest = std::chrono::hours(24);
  const auto bounded = std::min<std::uint64_t>(time_us, static_cast<std::uint64_t>(longest.count()));
  return Deadline::at(os::SteadyClock::read() + std::chrono::microseconds(bounded));
}

}  // namespace

void Port::add_offload_handlers() {
  server_->handle<CallFunction>([this](const rpc::Context& context, const CallFunctionRequest& request,
                                       rpc::Responder<CallFunction> responder) {
    if (host_ == nullptr) return std::move(responder).refuse(ErrorCode::kUnsupported);
    const Result<std::uint64_t> number = extents_.number_of(context.tenant, request.extent);
    if (!number) return std::move(responder).refuse(number.error().code());
    host_->call({.function = request.function,
                 .version = request.version,
                 .memory = memory_name(context.tenant, request.extent, *number),
                 .address = request.address,
                 .arguments = request.arguments,
                 .deadline = deadline_of(request.time_us),
                 .open_memory = [this, tenant = context.tenant, extent = std::string(request.extent),
                                 number = *number]() -> Result<offload::MemoryFile> {
                   YONDER_TRY(file, extents_.file(tenant, extent, number));
                   return offload::MemoryFile{.file = std::move(file.fd), .bytes = file.bytes};
                 }},
                [responder = std::move(responder)](const offload::Outcome& outcome) mutable {
                  std::move(responder).respond({.code = outcome.code,
                                                .detail = outcome.detail,
                                                .result = {outcome.result.begin(), outcome.result.end()}});
                });
  });
}

Result<void> Port::remove_extent(TenantId tenant, std::string_view name) {
  const Result<std::uint64_t> number = extents_.number_of(tenant, name);
  YONDER_TRY_VOID(extents_.remove(tenant, name));
  // After that no new worker can have it.
  if (host_ != nullptr && number) host_->forget(memory_name(tenant, name, *number));
  return {};
}

}  // namespace yonder::node::internal
