// The conformance suite on shm, in three variants: peers of one process, foreign
// peers that map memfds, foreign peers of memory that must be served.
#include <unistd.h>

#include <atomic>

#include "yonder/base/check.h"
#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"

namespace yonder::fabric::conformance {
namespace {

std::unique_ptr<Fabric> open_or_die(const shm::Options& options) {
  auto fabric = shm::open(options);
  YONDER_CHECK(fabric.has_value(), "opening an shm fabric needs only memfds and sockets");
  return std::move(*fabric);
}

enum class MemoryKind { kMemfd, kAnonymous };

struct Variant {
  bool in_process = true;
  MemoryKind memory = MemoryKind::kMemfd;
  bool membarrier = true;
};

class ShmBed final : public Bed {
 public:
  explicit ShmBed(Variant variant)
      : variant_(variant),
        target_(open_or_die({.use_membarrier = variant.membarrier})),
        initiator_(open_or_die({.use_membarrier = variant.membarrier})) {}

  Fabric& target() override { return *target_; }
  Fabric& initiator() override { return *initiator_; }

  std::string listen_address() override {
    static std::atomic<unsigned> next{0};
    const std::string name = "conformance-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
    return "shm:" + name + (variant_.in_process ? "" : "?inprocess=off");
  }

  Memory allocate(std::size_t bytes) override {
    return variant_.memory == MemoryKind::kMemfd ? allocate_memfd(bytes) : allocate_anonymous(bytes);
  }

 private:
  static Memory allocate_memfd(std::size_t bytes) {
    struct Owner {
      os::Memfd file;
      os::Mapping mapping;
    };
    auto file = os::Memfd::create({.name = "conformance", .size = bytes});
    YONDER_CHECK(file.has_value(), "a memfd for a test");
    auto mapping =
        os::Mapping::of_file(file->fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite});
    YONDER_CHECK(mapping.has_value(), "a mapping for a test");
    auto owner = std::make_shared<Owner>(std::move(*file), std::move(*mapping));
    return {owner->mapping.bytes(), Backing{.fd = owner->file.fd().get()}, owner};
  }
  static Memory allocate_anonymous(std::size_t bytes) {
    auto mapping = os::Mapping::anonymous({.bytes = bytes});
    YONDER_CHECK(mapping.has_value(), "memory for a test");
    auto owner = std::make_shared<os::Mapping>(std::move(*mapping));
    return {owner->bytes(), std::nullopt, owner};
  }

  const Variant variant_;
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
};

std::unique_ptr<Bed> in_process() { return std::make_unique<ShmBed>(Variant{}); }
std::unique_ptr<Bed> foreign_direct() { return std::make_unique<ShmBed>(Variant{.in_process = false}); }
std::unique_ptr<Bed> foreign_served() {
  return std::make_unique<ShmBed>(Variant{.in_process = false, .memory = MemoryKind::kAnonymous});
}
std::unique_ptr<Bed> with_fences() {
  return std::make_unique<ShmBed>(Variant{.in_process = false, .membarrier = false});
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance,
                         ::testing::Values(Provider{"InProcess", in_process},
                                           Provider{"ForeignDirect", foreign_direct},
                                           Provider{"ForeignServed", foreign_served},
                                           Provider{"WithoutMembarrier", with_fences}),
                         provider_name);

}  // namespace
}  // namespace yonder::fabric::conformance
