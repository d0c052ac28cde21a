#include "yonder/rpc/wire.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

namespace yonder::rpc {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> request_of(RequestHeader header, std::size_t payload_bytes) {
  std::vector<std::byte> message(kRequestHeaderBytes + payload_bytes);
  put_header(header, message.data());
  return message;
}

RequestHeader header_for(std::uint32_t payload_bytes) {
  return {
      .method = 7, .sizes = RequestHeader::pack_sizes(payload_bytes, 12), .request_id = 0x1122334455667788};
}

TEST(Wire, ARequestWithSixteenBytesFitsOneCell) {
  EXPECT_EQ(kRequestHeaderBytes + 16, 48u);
  EXPECT_EQ(kResponseHeaderBytes + 24, 48u);
}

TEST(Wire, ARequestKeepsItsFields) {
  RequestHeader header = header_for(3);
  header.tenant = 5;
  header.epoch = 99;
  header.budget_us = 1234;
  RequestHeader read;
  ASSERT_EQ(read_request(request_of(header, 3), read), ErrorCode::kOk);
  EXPECT_EQ(read.method, 7);
  EXPECT_EQ(read.payload_bytes(), 3u);
  EXPECT_EQ(read.answer_limit(), 4096u);
  EXPECT_EQ(read.request_id, 0x1122334455667788u);
  EXPECT_EQ(read.tenant, 5u);
  EXPECT_EQ(read.epoch, 99u);
  EXPECT_EQ(read.budget_us, 1234u);
}

TEST(Wire, FieldsLieWhereTheDrawingSays) {
  const std::vector<std::byte> message = request_of(header_for(0), 0);
  EXPECT_EQ(message[0], std::byte{kVersion});
  EXPECT_EQ(message[2], std::byte{7});
  EXPECT_EQ(message[7], std::byte{12});
  EXPECT_EQ(message[8], std::byte{0x88});
  EXPECT_EQ(message[15], std::byte{0x11});
}

TEST(Wire, ATruncatedRequestIsMalformed) {
  const std::vector<std::byte> message = request_of(header_for(4), 4);
  RequestHeader read;
  for (std::size_t length = 0; length < message.size(); ++length) {
    EXPECT_EQ(read_request(std::span(message).first(length), read), ErrorCode::kMalformedFrame) << length;
  }
}

TEST(Wire, APayloadLongerThanItsLengthIsMalformed) {
  RequestHeader read;
  EXPECT_EQ(read_request(request_of(header_for(4), 5), read), ErrorCode::kMalformedFrame);
}

TEST(Wire, AnotherVersionIsRefusedButItsIdIsKnown) {
  RequestHeader header = header_for(0);
  header.version = kVersion + 1;
  RequestHeader read;
  EXPECT_EQ(read_request(request_of(header, 0), read), ErrorCode::kProtocolMismatch);
  EXPECT_EQ(read.request_id, header.request_id);
}

TEST(Wire, AnUnknownFeatureIsRefused) {
  RequestHeader header = header_for(0);
  header.features = 0x80;
  RequestHeader read;
  EXPECT_EQ(read_request(request_of(header, 0), read), ErrorCode::kProtocolMismatch);
}

TEST(Wire, AHugeAnswerLimitIsTheGreatestPayload) {
  RequestHeader header;
  header.sizes = RequestHeader::pack_sizes(0, 255);
  EXPECT_EQ(header.answer_limit(), kMaxPayloadBytes);
}

TEST(Wire, AResponseIsCheckedLikeARequest) {
  std::array<std::byte, kResponseHeaderBytes + 2> message{};
  ResponseHeader header{.request_id = 9, .epoch = 3, .status = 203, .credits = 4};
  header.sizes = ResponseHeader::pack_sizes(2);
  put_header(header, message.data());
  ResponseHeader read;
  ASSERT_EQ(read_response(message, read), ErrorCode::kOk);
  EXPECT_EQ(read.request_id, 9u);
  EXPECT_EQ(read.status, 203);
  EXPECT_EQ(read.credits, 4);
  EXPECT_EQ(read_response(std::span(message).first(25), read), ErrorCode::kMalformedFrame);
  EXPECT_EQ(read_response(std::span(message).first(23), read), ErrorCode::kMalformedFrame);
  message[23] = std::byte{9};
  EXPECT_EQ(read_response(message, read), ErrorCode::kProtocolMismatch);
}

std::vector<std::byte> greeting_bytes(Greeting greeting) {
  std::vector<std::byte> bytes(kGreetingBytes);
  put_header(greeting, bytes.data());
  return bytes;
}

TEST(Wire, AGreetingSaysWhatTheServerGrants) {
  const Result<Greeting> greeting =
      read_greeting(greeting_bytes({.credits = 8, .max_request = 100, .max_response = 200}));
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->credits, 8);
  EXPECT_EQ(greeting->max_request, 100u);
  EXPECT_EQ(greeting->max_response, 200u);
}

TEST(Wire, WhatIsNoGreetingIsRefused) {
  const Greeting good{.credits = 8};
  std::vector<std::byte> bytes = greeting_bytes(good);
  EXPECT_TRUE(read_greeting(bytes));
  EXPECT_EQ(read_greeting(std::span(bytes).first(23)).error(), ErrorCode::kProtocolMismatch);
  EXPECT_EQ(read_greeting({}).error(), ErrorCode::kProtocolMismatch);
  bytes[0] = std::byte{0};
  EXPECT_EQ(read_greeting(bytes).error(), ErrorCode::kProtocolMismatch);
  EXPECT_FALSE(read_greeting(greeting_bytes({.credits = 0})));
  EXPECT_FALSE(read_greeting(greeting_bytes({.min_version = 2, .max_version = 3, .credits = 8})));
  EXPECT_FALSE(read_greeting(greeting_bytes({.credits = 8, .max_request = kMaxPayloadBytes + 1})));
}

TEST(Wire, ABudgetIsRoundedUpAndNeverWraps) {
  EXPECT_EQ(budget_us(0ns), 0u);
  EXPECT_EQ(budget_us(-5ns), 0u);
  EXPECT_EQ(budget_us(1ns), 1u);
  EXPECT_EQ(budget_us(1000ns), 1u);
  EXPECT_EQ(budget_us(1001ns), 2u);
  EXPECT_EQ(budget_us(std::chrono::hours(2)), kNoBudget);
}

TEST(Wire, TheOfferedAnswerNeverExceedsTheBuffer) {
  for (std::uint32_t bytes : {1u, 2u, 3u, 4u, 1000u, 4096u, 5000u}) EXPECT_LE(1u << log2_floor(bytes), bytes);
  EXPECT_EQ(log2_floor(4096), 12u);
}

}  // namespace
}  // namespace yonder::rpc
