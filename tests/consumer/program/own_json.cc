// A source file that includes nlohmann's JSON before ibid. Its ordered_json must behave as its own header defines it:
// destruction without recursion at any depth.
#include <nlohmann/json.hpp>

#include <ibid/chat_session.h>
#include <ibid/turn_stream.h>

#include <utility>

int macros_are_ours();  // own_macros.cc

int others_are_unharmed() {
  nlohmann::ordered_json deep = "the bottom";
  for (int i = 0; i < 1'000'000; ++i) {
    nlohmann::ordered_json outer = nlohmann::ordered_json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  const ibid::Status status(ibid::ErrorCode::kNotFound, nlohmann::ordered_json({{"b", 1}, {"a", 2}}).dump());
  const bool is_sound = deep.size() == 1 && status.message() == R"({"b":1,"a":2})";
  return is_sound ? macros_are_ours() : 1;
}
