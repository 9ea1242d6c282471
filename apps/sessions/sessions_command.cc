// ibid sessions: manages the conversations saved by `ibid chat --resume NAME`.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include "apps/command_line/command.h"
#include "apps/sessions/message_text.h"
#include "apps/sessions/session_files.h"
#include "apps/sessions/session_report.h"
#include "apps/terminal/terminal_text.h"
#include "base/clock.h"

namespace ibid {
namespace {

struct SessionsArguments {
  std::string name;
  std::string new_name;
  std::string format = "markdown";
  std::string out;
  std::vector<std::string> names;
  bool json = false;
  bool yes = false;
};

Status print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? Status() : cannot_write();
}

// Prints saved text, which is untrusted: on a terminal without control characters.
Status print_content(const std::string& text) {
  return print(isatty(STDOUT_FILENO) == 1 ? without_controls(text) : text);
}

Result<SavedSession> read_named(const SessionFiles& files, const std::string& name) {
  TRY(check_session_name(name));
  if (!files.exists(name)) return files.no_such(name);
  return read_saved_session(files.ops(), files.path(name));
}

Status list(const SessionFiles& files, const SessionsArguments& arguments) {
  TRY_ASSIGN(const std::vector<SessionSummary> sessions, summarize_sessions(files));
  if (!arguments.json) return print(sessions_as_table(sessions, system_clock().unix_ns()));
  std::string lines;
  for (const SessionSummary& session : sessions) lines += json_to_string(summary_as_json(session)) + "\n";
  return print(lines);
}

Status show(const SessionFiles& files, const SessionsArguments& arguments) {
  TRY_ASSIGN(const SavedSession session, read_named(files, arguments.name));
  return print_content(session_as_text(arguments.name, session));
}

Status export_one(const SessionFiles& files, const SessionsArguments& arguments) {
  TRY_ASSIGN(const SavedSession session, read_named(files, arguments.name));
  const std::string text = arguments.format == "json"
                               ? json_to_string(session_as_json(arguments.name, session, files)) + "\n"
                               : session_as_markdown(arguments.name, session);
  if (arguments.out.empty()) return print_content(text);
  if (!arguments.yes && files.ops().info(arguments.out).ok()) {
    return {ErrorCode::kDuplicate, arguments.out + ": already exists; --yes overwrites it"};
  }
  return write_file_atomically(files.ops(), arguments.out, std::as_bytes(std::span(text)));
}

Status rename(const SessionFiles& files, const SessionsArguments& arguments) {
  TRY(check_session_name(arguments.name));
  TRY(check_session_name(arguments.new_name));
  return files.rename(arguments.name, arguments.new_name);
}

// Asks for confirmation. A refusal is not an error.
Result<bool> may_delete(const SessionFiles& files, const std::string& name, bool yes) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) != 1) {
    return Status(ErrorCode::kInvalidArgument, "cannot ask for confirmation: --yes deletes '" + name + "'");
  }
  const Result<SavedSession> session = read_saved_session(files.ops(), files.path(name));
  const std::string size = session.ok() ? std::to_string(session->messages.size()) + " messages" : "unreadable";
  std::fprintf(stderr, "delete '%s' (%s) for good? [y/N] ", name.c_str(), size.c_str());
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

Status remove(const SessionFiles& files, const SessionsArguments& arguments) {
  // Check all names before anything is removed.
  for (const std::string& name : arguments.names) {
    TRY(check_session_name(name));
    if (!files.exists(name)) return files.no_such(name);
  }
  for (const std::string& name : arguments.names) {
    TRY_ASSIGN(const bool may, may_delete(files, name, arguments.yes));
    if (may) TRY(files.remove(name));
    std::fprintf(stderr, "'%s' %s\n", name.c_str(), may ? "is deleted" : "stays");
  }
  return {};
}

using Action = Status (*)(const SessionFiles& files, const SessionsArguments& arguments);

Status run(Action action, const SessionsArguments& arguments) {
  signal(SIGPIPE, SIG_IGN);
  TRY_ASSIGN(const std::string directory, sessions_directory());
  return action(SessionFiles(system_file_ops(), directory), arguments);
}

}  // namespace

void add_sessions(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<SessionsArguments>();
  SessionsArguments& a = *arguments;
  CLI::App* command = root.add_subcommand("sessions", "kept conversations: list, show, export, rename, delete");
  command->require_subcommand(0, 1);
  const auto runs = [&exit_code, arguments](CLI::App* app, Action action) {
    app->callback([arguments, action, &exit_code] {
      const Status status = run(action, *arguments);
      exit_code = status.ok() ? 0 : report(status);
    });
  };
  const char* json_help = "print one line of JSON per conversation";
  CLI::App* listing =
      command->add_subcommand("list", "list name, time, turns, tokens, model and first words of each conversation");
  listing->add_flag("--json", a.json, json_help);
  command->add_flag("--json", a.json, json_help);
  runs(listing, list);
  command->callback([arguments, command, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    const Status status = run(list, *arguments);
    exit_code = status.ok() ? 0 : report(status);
  });

  CLI::App* showing = command->add_subcommand("show", "show the messages of a conversation");
  add_text_option(*showing, "NAME", a.name, "the conversation's name")->required();
  runs(showing, show);

  CLI::App* exporting = command->add_subcommand("export", "write a conversation as Markdown or JSON");
  add_text_option(*exporting, "NAME", a.name, "the conversation's name")->required();
  exporting->add_option("--format", a.format, "markdown, or json (with the other branches)")
      ->type_name("markdown|json")
      ->check(one_of({"markdown", "json"}))
      ->capture_default_str();
  exporting->add_option("--out", a.out, "the file to write (default: standard output)")->type_name("FILE");
  exporting->add_flag("--yes", a.yes, "overwrite an existing file");
  runs(exporting, export_one);

  CLI::App* renaming = command->add_subcommand("rename", "rename a conversation");
  add_text_option(*renaming, "OLD", a.name, "the conversation's name")->required();
  add_text_option(*renaming, "NEW", a.new_name, "the new name")->required();
  runs(renaming, rename);

  CLI::App* deleting = command->add_subcommand("delete", "delete conversations and their branches for good");
  add_text_list(*deleting, "NAME", a.names, "the names of the conversations")
      ->required()
      ->expected(1, -1)
      ->allow_extra_args();
  deleting->add_flag("--yes", a.yes, "do not ask");
  runs(deleting, remove);
}

}  // namespace ibid
