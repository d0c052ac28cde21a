#include "yonder/fabric/shm/internal/link.h"

#include "yonder/os/memfd.h"

namespace yonder::fabric::shm {

Link::Link(LinkParts parts, EndpointId endpoint, std::shared_ptr<Mailbox> mailbox)
    : parts_(std::move(parts)), endpoint_(endpoint), mailbox_(std::move(mailbox)) {
  const int d = ours();
  std::byte* const memory = parts_.memory.data();
  const LinkShape& shape = parts_.shape;
  our_lane_ = &lane(d);
  their_lane_ = &lane(1 - d);
  // Lane d's messages land in the receives of its listener.
  peer_sizes_ = sizes(d);
  peer_sizes_mask_ = shape.receive_depth[d] - 1;
  our_sizes_ = sizes(1 - d);
  our_sizes_mask_ = shape.receive_depth[1 - d] - 1;
  sender = MessageSender(memory + shape.cells_at(d), shape.cells, &lane(d).consumed, lane(d).express);
  receiver = MessageReceiver(memory + shape.cells_at(1 - d), shape.cells, &lane(1 - d).consumed,
                             lane(1 - d).express);
  service_mark_ = BoardMark(parts_.peer_service.data(), parts_.peer.service_entry);
  service_line_ = &parts_.peer_state.line(0);
  if (parts_.peer_queue.valid()) {
    queue_mark_ = BoardMark(parts_.peer_queue.data(), parts_.peer.queue_entry);
    queue_line_ = &parts_.peer_state.line(parts_.peer.queue_line);
  } else {
    queue_mark_ = BoardMark(no_board_, 0);
  }
  if (parts_.peer.receive_line != 0) receive_line_ = &parts_.peer_state.line(parts_.peer.receive_line);
}

void Link::announce_request() const {
  service_mark_.mark();
  light_fence(parts_.fence);
  if (service_line_->sleeping.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  // A full socket means that the peer has enough to wake up for; a broken one is
  // noticed by our own service thread.
  (void)parts_.socket.try_send(encode_wake().bytes());
}

bool Link::ask(RegionKey key) const {
  const auto sent = parts_.socket.try_send(encode(ResolvePacket{key}).bytes());
  // A broken socket counts as asked: the loss ends the request.
  return !sent || *sent != 0;
}

Result<LinkFile> create_link_file(const LinkShape& shape) {
  YONDER_TRY(file, os::Memfd::create({.name = "yonder-shm-link", .size = shape.bytes()}));
  YONDER_TRY_VOID(file.seal(os::kSealShrink | os::kSealGrow | os::kSealSeal));
  YONDER_TRY(mapping, os::Mapping::of_file(
                          file.fd(), {.bytes = shape.bytes(), .protection = os::Protection::kReadWrite}));
  YONDER_TRY(fd, file.fd().duplicate());
  return LinkFile{std::move(fd), std::move(mapping)};
}

}  // namespace yonder::fabric::shm
