// MessageStream: an answer as the events of Anthropic's Messages API: message_start, ping; for each block
// content_block_start, content_block_delta, content_block_stop; message_delta, message_stop. An error is an event.
#pragma once

#include <string>

#include "server/protocol/reply.h"

namespace ibid::serve {

class MessageStream final : public StreamReply {
 public:
  MessageStream(http::ExchangePtr exchange, std::string id);

 protected:
  void opened() override;
  void said(size_t i, std::string_view text) override;
  void thought(size_t i, std::string_view text) override;
  void called(size_t i, size_t call, std::string_view id, std::string_view name) override;
  void call_part(size_t i, size_t call, std::string_view part) override;
  void answered(size_t i, const Answer& answer) override;
  void finished() override;
  void failed(const Fault& fault) override;

 private:
  enum class Block { kNone, kThinking, kText, kToolUse };

  void open(Block kind, Json block);
  void close();
  // {"type": delta_type, key: text} of the open block.
  void send_delta(const char* delta_type, const char* key, std::string_view text);

  std::string id_;
  Block block_ = Block::kNone;
  size_t n_blocks_ = 0;   // that were opened
};

}  // namespace ibid::serve
