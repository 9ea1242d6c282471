// Reports on saved conversations: table, text, Markdown, JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/sessions/session_files.h"
#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

struct SessionSummary {
  std::string name;
  int64_t modified_ns = 0;  // nanoseconds since 1970
  size_t n_turns = 0;
  size_t n_tokens = 0;      // number of tokens; 0: unknown
  size_t n_branches = 0;    // number of branches besides the main one
  std::string model;        // file name of the model
  std::string first_words;  // start of the first question
  std::string problem;  // the reason why the file cannot be read; if it is set, only the name and the time are known
};

// Returns all conversations, newest first. Error: kIo.
Result<std::vector<SessionSummary>> summarize_sessions(const SessionFiles& files);

// Formats a table with a header and one line per conversation, at most 78 columns wide unless names are longer.
std::string sessions_as_table(const std::vector<SessionSummary>& sessions, int64_t now_ns);
// Returns {"name", "modified", "n_turns", "n_tokens", "n_branches", "model", "first_words"}; if the file cannot be
// read, {"name", "modified", "error"}.
Json summary_as_json(const SessionSummary& session);

// Formats the messages, each below the name of its role.
std::string session_as_text(const std::string& name, const SavedSession& session);
std::string session_as_markdown(const std::string& name, const SavedSession& session);
// Returns {"name", "model", "messages", "branches": [{"number", "messages"}]}.
Json session_as_json(const std::string& name, const SavedSession& session, const SessionFiles& files);

}  // namespace ibid
