// Sockets of ZeroMQ as a router has them: a subscriber, and a client that asks for batches again.
#pragma once

#include <gtest/gtest.h>
#include <zmq.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"

namespace ibid::serve {

class ZmqClient {
 public:
  static constexpr int kPatienceMs = 10'000;

  ZmqClient(int type, const std::string& endpoint) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int patience = kPatienceMs, linger = 0;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    if (type == ZMQ_SUB) zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "", 0);
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0) << endpoint;
  }
  ~ZmqClient() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  ZmqClient(const ZmqClient&) = delete;
  ZmqClient& operator=(const ZmqClient&) = delete;

  void send(const std::vector<std::string>& parts) const {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      EXPECT_GE(zmq_send(socket_, parts[i].data(), parts[i].size(), more), 0);
    }
  }
  // Returns the parts of the next message; empty if none arrives in time.
  std::vector<std::string> receive(int patience_ms = kPatienceMs) const {
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience_ms, sizeof(patience_ms));
    std::vector<std::string> parts;
    for (int more = 1; more != 0;) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      if (zmq_msg_recv(&message, socket_, 0) < 0) return parts;
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
      more = zmq_msg_more(&message);
      zmq_msg_close(&message);
    }
    return parts;
  }

  // A batch of a subscription; number -1 if none arrives in time.
  struct Batch {
    std::string topic;
    int64_t number = -1;
    Json events;
  };
  static Batch batch_of(std::string topic, std::string_view number, const std::string& payload) {
    Batch batch{.topic = std::move(topic), .number = 0};
    for (const char c : number) batch.number = batch.number << 8 | static_cast<unsigned char>(c);
    if (!payload.empty()) batch.events = Json::from_msgpack(payload)[1];
    return batch;
  }
  Batch next() const {
    const std::vector<std::string> parts = receive();
    if (parts.size() != 3 || parts[1].size() != 8) return {};
    return batch_of(parts[0], parts[1], parts[2]);
  }

 private:
  void* context_;
  void* socket_;
};

}  // namespace ibid::serve
