#include "yonder/segment/remote_directory.h"

#include "yonder/segment/internal/peer_line.h"
#include "yonder/segment/internal/protocol.h"

namespace yonder::segment {

namespace {

// What a call is told if it says nothing itself.
Result<rpc::Empty> empty(Result<void> done) {
  if (!done) return std::unexpected(done.error());
  return rpc::Empty{};
}

Result<protocol::RecordMessage> message(Result<SegmentRecord> record) {
  if (!record) return std::unexpected(record.error());
  return protocol::RecordMessage{*record};
}

Result<void> nothing(Result<rpc::Empty> answer) {
  if (!answer) return std::unexpected(answer.error());
  return {};
}

Result<SegmentRecord> record(Result<protocol::RecordMessage> answer) {
  if (!answer) return std::unexpected(answer.error());
  return answer->record;
}

}  // namespace

void serve_directory(rpc::Server& server, Directory& directory) {
  using rpc::Context;
  namespace p = protocol;
  server.handle<p::Join>([&](const Context& context, const p::Address& address) -> Result<p::ProcessMessage> {
    YONDER_TRY(process, directory.join(address.text, context.deadline()));
    return p::ProcessMessage{process};
  });
  server.handle<p::Renew>([&](const Context& context, const p::ProcessMessage& request) {
    return empty(directory.renew(request.process, context.deadline()));
  });
  server.handle<p::Leave>([&](const Context& context, const p::ProcessMessage& request) {
    return empty(directory.leave(request.process, context.deadline()));
  });
  server.handle<p::AddressOf>(
      [&](const Context& context, const p::ProcessMessage& request) -> Result<p::Address> {
        YONDER_TRY(address, directory.address_of(request.process, context.deadline()));
        return p::Address{address};
      });
  server.handle<p::Allocate>([&](const Context& context, const p::AllocateRequest& request) {
    return message(directory.allocate(request.owner, request.bytes, context.deadline()));
  });
  server.handle<p::Deallocate>([&](const Context& context, const p::SegmentBy& request) {
    return empty(directory.deallocate(request.by, request.segment, context.deadline()));
  });
  server.handle<p::Find>([&](const Context& context, const p::SegmentMessage& request) {
    return message(directory.find(request.segment, context.deadline()));
  });
  server.handle<p::List>([&](const Context& context, const p::SegmentMessage& request) -> Result<p::Records> {
    YONDER_TRY(records, directory.list(request.segment, context.deadline()));
    if (records.size() > p::kMaxRecords) records.resize(p::kMaxRecords);
    return p::Records{std::move(records)};
  });
  server.handle<p::BeginMove>([&](const Context& context, const p::MoveMessage& request) {
    const Move& move = request.move;
    return message(directory.begin_move(move.segment, move.from, move.to, context.deadline()));
  });
  server.handle<p::CommitMove>([&](const Context& context, const p::MoveMessage& request) {
    return message(directory.commit_move(request.move, context.deadline()));
  });
  server.handle<p::CancelMove>([&](const Context& context, const p::SegmentBy& request) {
    return empty(directory.cancel_move(request.segment, request.by, context.deadline()));
  });
}

Result<std::unique_ptr<RemoteDirectory>> RemoteDirectory::connect(fabric::Fabric& fabric,
                                                                  const std::string& address) {
  YONDER_TRY(line, internal::PeerLine::connect(fabric, address));
  return std::unique_ptr<RemoteDirectory>(new RemoteDirectory(std::move(line)));
}

RemoteDirectory::RemoteDirectory(std::unique_ptr<internal::PeerLine> line) : line_(std::move(line)) {}
RemoteDirectory::~RemoteDirectory() = default;

Result<ProcessId> RemoteDirectory::join(std::string_view address, Deadline deadline) {
  if (address.size() > kMaxAddress) return fail(ErrorCode::kInvalidArgument, "directory: address too long");
  YONDER_TRY(answer, line_->call<protocol::Join>({std::string(address)}, deadline));
  return answer.process;
}
Result<void> RemoteDirectory::renew(ProcessId process, Deadline deadline) {
  return nothing(line_->call<protocol::Renew>({process}, deadline));
}
Result<void> RemoteDirectory::leave(ProcessId process, Deadline deadline) {
  return nothing(line_->call<protocol::Leave>({process}, deadline));
}
Result<std::string> RemoteDirectory::address_of(ProcessId process, Deadline deadline) {
  YONDER_TRY(answer, line_->call<protocol::AddressOf>({process}, deadline));
  return std::move(answer.text);
}
Result<SegmentRecord> RemoteDirectory::allocate(ProcessId owner, std::uint64_t bytes, Deadline deadline) {
  return record(line_->call<protocol::Allocate>({owner, bytes}, deadline));
}
Result<void> RemoteDirectory::deallocate(ProcessId owner, SegmentId segment, Deadline deadline) {
  return nothing(line_->call<protocol::Deallocate>({segment, owner}, deadline));
}
Result<SegmentRecord> RemoteDirectory::find(SegmentId segment, Deadline deadline) {
  return record(line_->call<protocol::Find>({segment}, deadline));
}
Result<std::vector<SegmentRecord>> RemoteDirectory::list(SegmentId from, Deadline deadline) {
  YONDER_TRY(answer, line_->call<protocol::List>({from}, deadline));
  return std::move(answer.records);
}
Result<SegmentRecord> RemoteDirectory::begin_move(SegmentId segment, ProcessId from, ProcessId to,
                                                  Deadline deadline) {
  return record(line_->call<protocol::BeginMove>({Move{segment, from, to, Epoch(0)}}, deadline));
}
Result<SegmentRecord> RemoteDirectory::commit_move(const Move& move, Deadline deadline) {
  return record(line_->call<protocol::CommitMove>({move}, deadline));
}
Result<void> RemoteDirectory::cancel_move(SegmentId segment, ProcessId by, Deadline deadline) {
  return nothing(line_->call<protocol::CancelMove>({segment, by}, deadline));
}

}  // namespace yonder::segment
