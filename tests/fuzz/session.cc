// A saved conversation from raw bytes. Loaded, written and loaded again, it is the same, without further warnings.
#include "base/check.h"
#include "runtime/session/session_json.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void session(Input input) {
  const auto read = session_from_text(text_of(input), "input");
  if (!read.ok()) {
    CHECK(!read.status().message().empty());
    return;
  }
  for (const SavedReply& reply : read->replies) {
    CHECK(reply.message < read->messages.size());
    for (const TokenId id : reply.ids) CHECK(id >= 0);
  }
  for (const size_t pinned : read->pinned) CHECK(pinned < read->messages.size());
  const auto text = session_to_text(session_to_json(*read));
  CHECK(text.ok()) << text.status().message();
  const auto again = session_from_text(*text, "again");
  CHECK(again.ok()) << again.status().message();
  CHECK(!again->load_warnings.any()) << again->load_warnings.to_string();
  CHECK(session_to_json(*again) == session_to_json(*read));
}

}  // namespace ibid::fuzz
