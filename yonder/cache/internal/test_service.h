#pragma once
// A store with a service, and a conversation with it, for tests.
//
// Concurrency and lifetime: as Conversation.

#include <memory>
#include <string>
#include <string_view>

#include "yonder/cache/conversation.h"
#include "yonder/cache/service.h"
#include "yonder/cache/store.h"

namespace yonder::cache {

struct TestService {
  explicit TestService(const StoreOptions& store_options = {.partitions = 4, .memory_bytes = 8 << 20},
                       const ServiceOptions& options = {})
      : store(Store::create(store_options).value()), service(*store, options) {}

  std::unique_ptr<Store> store;
  Service service;
};

class Talk {
 public:
  explicit Talk(Service& service, Forwarder* forwarder = nullptr)
      : service_(service), conversation_(service, service.make_counters(), forwarder) {}

  // Says it, and returns what is replied by then.
  std::string say(std::string_view bytes) {
    held_.append(bytes);
    held_.erase(0, conversation_.consume(held_, now_));
    return replies();
  }
  std::string replies() {
    Output& out = conversation_.output();
    std::string text(out.text());
    out.consume(out.size());
    return text;
  }
  void set_now(Seconds now) { now_ = now; }
  Seconds now() const { return now_; }
  Conversation& conversation() { return conversation_; }
  std::size_t held() const { return held_.size(); }

 private:
  Service& service_;
  Conversation conversation_;
  Seconds now_ = service_.now();
  std::string held_;
};

}  // namespace yonder::cache
