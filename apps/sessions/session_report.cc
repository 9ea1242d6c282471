#include "apps/sessions/session_report.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <utility>

#include "apps/command_line/command.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr size_t kNameColumns = 14, kTimeColumns = 12, kModelColumns = 14, kWordsColumns = 17;
constexpr size_t kFirstWords = 200;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kHalfAYearNs = int64_t{182} * 24 * 3600 * kNsPerSecond;

std::string formatted_time(int64_t ns, const char* format, bool local) {
  const std::time_t seconds = static_cast<std::time_t>(ns / kNsPerSecond);
  std::tm parts{};
  if (local) {
    localtime_r(&seconds, &parts);
  } else {
    gmtime_r(&seconds, &parts);
  }
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

// Formats as `ls -l` does: old times have a year instead of the hour.
std::string short_time(int64_t ns, int64_t now_ns) {
  return formatted_time(ns, now_ns - ns < kHalfAYearNs ? "%d %b %H:%M" : "%d %b %Y", true);
}

std::string padded(std::string text, size_t columns) {
  const size_t n = utf8_length(text);
  if (n < columns) text.append(columns - n, ' ');
  return text;
}

std::string right(const std::string& text, size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

std::string title_of(const Json& message) {
  if (is_from(message, Role::kUser)) return "You";
  std::string title(role_of(message));
  if (title.empty()) return "?";
  if (title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

SessionSummary summary_of(const SessionFiles& files, const std::string& name) {
  SessionSummary summary;
  summary.name = name;
  if (const Result<FileInfo> info = files.ops().info(files.path(name)); info.ok()) summary.modified_ns = info->mtime_ns;
  if (const Result<std::vector<size_t>> branches = files.branches(name); branches.ok()) {
    summary.n_branches = branches->size();
  }
  const Result<SavedSession> saved = read_saved_session(files.ops(), files.path(name));
  if (!saved.ok()) {
    summary.problem = saved.status().message();
    return summary;
  }
  summary.n_turns = n_turns(saved->messages);
  summary.n_tokens = saved->n_tokens;
  summary.model = std::filesystem::path(saved->model_name).filename().string();
  for (const Json& message : saved->messages) {
    if (!is_from(message, Role::kUser)) continue;
    summary.first_words = excerpt(text_of(message), kFirstWords);
    break;
  }
  return summary;
}

}  // namespace

Result<std::vector<SessionSummary>> summarize_sessions(const SessionFiles& files) {
  TRY_ASSIGN(const std::vector<std::string> names, files.names());
  std::vector<SessionSummary> sessions;
  for (const std::string& name : names) sessions.push_back(summary_of(files, name));
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const SessionSummary& a, const SessionSummary& b) { return a.modified_ns > b.modified_ns; });
  return sessions;
}

std::string sessions_as_table(const std::vector<SessionSummary>& sessions, int64_t now_ns) {
  if (sessions.empty()) {
    return "no conversations are kept yet: " + own_command("chat --resume NAME") + " starts one\n";
  }
  std::string table = padded("NAME", kNameColumns) + "  " + padded("WHEN", kTimeColumns) + "  TURNS  TOKENS  " +
                      padded("MODEL", kModelColumns) + "  FIRST WORDS\n";
  for (const SessionSummary& session : sessions) {
    // Never cut names, because users type them.
    std::string line = padded(session.name, kNameColumns);
    if (utf8_length(session.name) > kNameColumns) line += "\n" + std::string(kNameColumns, ' ');
    line += "  " + padded(short_time(session.modified_ns, now_ns), kTimeColumns) + "  ";
    if (!session.problem.empty()) {
      table += line + "cannot be read (" + own_command("sessions show") + " says why)\n";
      continue;
    }
    line += right(std::to_string(session.n_turns), 5) + "  " +
            right(session.n_tokens == 0 ? "-" : std::to_string(session.n_tokens), 6) + "  " +
            padded(excerpt(session.model, kModelColumns), kModelColumns) + "  " +
            excerpt(session.first_words, kWordsColumns);
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return without_controls(table);
}

Json summary_as_json(const SessionSummary& session) {
  Json json = {{"name", session.name}, {"modified", formatted_time(session.modified_ns, "%Y-%m-%dT%H:%M:%SZ", false)}};
  if (!session.problem.empty()) {
    json["error"] = session.problem;
    return json;
  }
  json["n_turns"] = session.n_turns;
  json["n_tokens"] = session.n_tokens == 0 ? Json(nullptr) : Json(session.n_tokens);
  json["n_branches"] = session.n_branches;
  json["model"] = session.model;
  json["first_words"] = session.first_words;
  return json;
}

std::string session_as_text(const std::string& name, const SavedSession& session) {
  std::string text = name + ": " + std::to_string(n_turns(session.messages)) + " turns, with " +
                     std::filesystem::path(session.model_name).filename().string() + "\n";
  for (const Json& message : session.messages) {
    text += "\n" + title_of(message) + ":\n" + text_of(message);
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

std::string session_as_markdown(const std::string& name, const SavedSession& session) {
  std::string text = "# " + name + "\n\n*" + std::filesystem::path(session.model_name).filename().string() + "*\n";
  for (const Json& message : session.messages) {
    text += "\n## " + title_of(message) + "\n\n" + text_of(message);
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

Json session_as_json(const std::string& name, const SavedSession& session, const SessionFiles& files) {
  Json json = {{"name", name}, {"model", session.model_name}, {"messages", session.messages}};
  json["branches"] = Json::array();
  const Result<std::vector<size_t>> numbers = files.branches(name);
  for (const size_t number : numbers.ok() ? *numbers : std::vector<size_t>()) {
    Json branch = {{"number", number}};
    const Result<SavedSession> saved = read_saved_session(files.ops(), files.branch_path(name, number));
    if (saved.ok()) {
      branch["messages"] = saved->messages;
    } else {
      branch["error"] = saved.status().message();
    }
    json["branches"].push_back(std::move(branch));
  }
  return json;
}

}  // namespace ibid
