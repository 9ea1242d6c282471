// Kept conversations as people and programs read them: a table, the messages, Markdown, JSON.
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
  int64_t modified_ns = 0;  // since 1970
  size_t n_turns = 0;
  size_t n_tokens = 0;      // 0: not known
  size_t n_branches = 0;    // others
  std::string model;        // the file's name
  std::string first_words;  // of the first question
  std::string problem;      // why the file cannot be read; nothing but the name and the time is known then
};

// All conversations, the newest first. Error: kIo.
Result<std::vector<SessionSummary>> summarize_sessions(const SessionFiles& files);

// A line each, at most 78 columns where the names allow it, with a title.
std::string sessions_as_table(const std::vector<SessionSummary>& sessions, int64_t now_ns);
// {"name", "modified", "n_turns", "n_tokens", "n_branches", "model", "first_words"}, or with "error".
Json summary_as_json(const SessionSummary& session);

// The messages, each under who said it.
std::string session_as_text(const std::string& name, const SavedSession& session);
std::string session_as_markdown(const std::string& name, const SavedSession& session);
// {"name", "model", "messages", "branches": [{"number", "messages"}]}
Json session_as_json(const std::string& name, const SavedSession& session, const SessionFiles& files);

}  // namespace ibid
