#include "runtime/prompt/plain_prompt.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "templates/message.h"

namespace ibid {
namespace {

constexpr const char* kIds = "ids";

// Text of the token that the tokenizer puts before every text; empty: none.
std::string_view text_before_prompt(const Tokenizer& tokenizer) {
  const std::optional<TokenId> bos = tokenizer.bos();
  if (!bos) return {};
  const Tokens around = tokenizer.encode("", TextOrigin::kTemplate, true);
  return !around.empty() && around.front() == *bos ? tokenizer.token_bytes(*bos) : std::string_view();
}

Result<Tokens> ids_of(const Tokenizer& tokenizer, const Json& given) {
  Tokens ids;
  if (!given.is_array()) return {ErrorCode::kInvalidArgument, "the token ids of a prompt must be an array of integers"};
  ids.reserve(given.size());
  for (const Json& id : given) {
    if (!id.is_number_integer() || id < 0 || id >= tokenizer.vocab_size()) {
      return {ErrorCode::kInvalidArgument, "the prompt's token id " + json_to_string(id) + " at index " +
                                               std::to_string(ids.size()) + " is out of vocabulary: the model has " +
                                               std::to_string(tokenizer.vocab_size()) + " tokens"};
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

}  // namespace

Json plain_message(std::string text) { return make_message(Role::kUser, std::move(text)); }

Json plain_message(const Tokens& ids) {
  Json message = Json::object();
  message["role"] = std::string(role_name(Role::kUser));
  message[kIds] = ids;
  return message;
}

std::optional<Tokens> plain_ids(const Json& message) {
  if (!message.is_object() || !message.contains(kIds) || !message[kIds].is_array()) return std::nullopt;
  Tokens ids;
  for (const Json& id : message[kIds]) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return std::nullopt;
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

Result<PromptDelta> plan_plain_prompt(const Tokenizer& tokenizer, const Json& messages, const Transcript& transcript) {
  PromptDelta delta;
  if (messages.size() == 1 && messages[0].contains(kIds)) {
    TRY_ASSIGN(Tokens ids, ids_of(tokenizer, messages[0][kIds]));
    delta = plan_ids(tokenizer, transcript, std::move(ids));
  } else {
    MarkedText text;
    for (const Json& message : messages) {
      const std::string* content = content_of(message);
      if (content == nullptr) return {ErrorCode::kInvalidArgument, "the messages of a prompt need text content"};
      if (text.empty()) {
        const std::string_view front = text_before_prompt(tokenizer);
        if (!content->starts_with(front)) text.append(front, TextOrigin::kTemplate);
      }
      text.append(*content, TextOrigin::kTemplate);
    }
    delta = plan_prompt(tokenizer, transcript, 0, text, messages.size());
  }
  if (delta.n_prompt == 0) return {ErrorCode::kInvalidArgument, "the prompt is empty"};
  return delta;
}

}  // namespace ibid
