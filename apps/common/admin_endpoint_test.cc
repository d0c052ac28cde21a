#include "apps/common/admin_endpoint.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

namespace yonder::apps {
namespace {

std::vector<telemetry::MetricValue> one_counter() {
  telemetry::MetricValue value{.name = "yonder_test_total",
                               .help = "Of the test.",
                               .labels = {},
                               .type = telemetry::MetricType::kCounter,
                               .unit = telemetry::Unit::kNone};
  value.counter = 7;
  return {value};
}

TEST(AdminEndpoint, ServesMetricsAndHealthOnAFreePort) {
  AdminEndpoint endpoint(one_counter);
  ASSERT_TRUE(endpoint.listen("127.0.0.1:0"));
  httplib::Client client(endpoint.address());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("yonder_test_total 7"), std::string::npos) << metrics->body;
  EXPECT_EQ(client.Get("/health")->status, 200);
  endpoint.begin_stop();
  EXPECT_EQ(client.Get("/health")->status, 503);
}

TEST(AdminEndpoint, EndsRightAfterItListens) {
  for (int i = 0; i < 20; ++i) {
    AdminEndpoint endpoint(one_counter);
    ASSERT_TRUE(endpoint.listen("127.0.0.1:0"));
  }
}

TEST(AdminEndpoint, RefusesAPlaceThatIsNoneAndAPortThatIsTaken) {
  AdminEndpoint first(one_counter);
  EXPECT_EQ(first.listen("localhost").error(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(first.listen("localhost:99999").error(), ErrorCode::kAddressInvalid);
  ASSERT_TRUE(first.listen("127.0.0.1:0"));
  AdminEndpoint second(one_counter);
  EXPECT_EQ(second.listen(first.address().substr(7)).error(), ErrorCode::kAlreadyExists);
}

TEST(AdminEndpoint, EscapesWhatOthersSayAndReplacesWhatIsNotText) {
  AdminEndpoint endpoint(one_counter);
  endpoint.http().Get("/names", [](const httplib::Request&, httplib::Response& response) {
    answer_json(response, nlohmann::json{{"quoted", "a\"b\\c\n"}, {"broken", "x\xff"}});
  });
  ASSERT_TRUE(endpoint.listen("127.0.0.1:0"));
  const auto reply = httplib::Client(endpoint.address()).Get("/names");
  ASSERT_TRUE(reply);
  const auto parsed = nlohmann::json::parse(reply->body, nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << reply->body;
  EXPECT_EQ(parsed["quoted"], "a\"b\\c\n");
  EXPECT_EQ(parsed["broken"], "x\xef\xbf\xbd");
}

}  // namespace
}  // namespace yonder::apps
