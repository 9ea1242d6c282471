// ibid ask: writes one answer to standard output, and nothing else.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/chat/load_engine.h"
#include "apps/chat/turn_arguments.h"
#include "apps/chat/turn_report.h"
#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/interrupt.h"
#include "apps/terminal/output.h"
#include "apps/terminal/progress.h"
#include "sampling/sampler.h"

namespace ibid {

namespace {

struct AskArguments {
  ModelArguments model;
  TurnArguments turn;
  ResponseFormatArguments form;
  MessageArguments message;
  std::vector<std::string> words;
  const CLI::Option* model_option = nullptr;
  bool json = false;
  std::optional<size_t> n_logprobs;
};

bool is_terminal(int fd) { return isatty(fd) == 1; }

// Splits the words into [MODEL] TEXT. Throws CLI::ValidationError if there is no question.
void sort_words(AskArguments& arguments) {
  std::vector<std::string>& words = arguments.words;
  const bool has_prompt = arguments.message.has_prompt();
  const bool has_other_text = arguments.message.given() || !is_terminal(STDIN_FILENO);
  if (arguments.model_option->count() == 0 && !words.empty() && (words.size() > 1 || has_other_text) &&
      names_a_model(words.front())) {
    arguments.model.model = words.front();
    words.erase(words.begin());
  }
  if (has_prompt && !words.empty()) throw CLI::ValidationError("TEXT", "is given twice: with --prompt and as TEXT");
  if (has_prompt) words = {arguments.message.prompt};
  if (words.empty() && !has_other_text) {
    throw CLI::ValidationError("TEXT", "is missing: ibid ask \"QUESTION\", or a pipe into it");
  }
}

void note(const std::string& text) { remark("ibid: " + text); }

Result<int> run_ask(const AskArguments& arguments) {
  TRY_ASSIGN(const std::string system, arguments.turn.system_message());
  const Question question{arguments.words, arguments.message.files};
  TRY_ASSIGN(const std::string text,
             join_question(question, is_terminal(STDIN_FILENO) ? nullptr : &std::cin, std::cin));
  // Reject an invalid response format before the model is loaded.
  TRY_ASSIGN(const std::optional<Grammar> form, arguments.form.grammar());
  TRY_ASSIGN(const std::string path, find_model(arguments.model));
  TRY_ASSIGN(const auto engine, load_engine(path, arguments.model));
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.system = system}));
  const CompletionIdentity identity = new_completion(model_name(*engine));

  InterruptScope interrupt;
  std::stop_source stop;
  const std::stop_callback forward(interrupt.token(), [&] { stop.request_stop(); });
  const AnswerReader reader = arguments.json ? AnswerReader::kProgram : AnswerReader::kPerson;
  TurnOptions options = arguments.turn.turn_options(*engine, reader);
  options.stop = stop.get_token();
  options.n_logprobs = arguments.n_logprobs;
  if (form) options.constraint = engine->state().constraints().make(*form);
  if (arguments.message.verbose) note(settings_text(model_name(*engine), engine->max_seq_len(), options));
  signal(SIGPIPE, SIG_IGN);  // SIGPIPE must not end the program before it restores the terminal's echo
  AnswerWriter output;
  ProgressIndicator waiting(STDERR_FILENO);
  waiting.show_step("reading");
  TRY_ASSIGN(const Turn turn, session.send(text, options, [&](const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kPrefill) waiting.show_step(reading_line(event));
    if (arguments.json || event.kind != TurnEvent::Kind::kText) return;
    waiting.end();
    output.write(event.text);
    if (output.error() != 0) stop.request_stop();
  }));
  waiting.end();
  if (arguments.json) {
    const Json& messages = session.state().messages();
    output.write_line(json_to_string(completion_json(identity, {&turn, 1}, messages, &engine->state().tokenizer())));
  }
  output.end_line();
  if (output.error() == EPIPE) return kReaderGone;
  if (output.error() != 0) return cannot_write();
  const std::string ending = ending_line(turn, options.max_tokens, AnswerPlace::kAsk);
  if (!arguments.json && !ending.empty()) note(ending);
  if (arguments.message.verbose) note(rates_line(turn));
  if (interrupt.interrupted()) return kInterruptedStatus;
  const bool is_cut = turn.finish_reason == FinishReason::kLength || turn.finish_reason == FinishReason::kRepetition;
  return form && is_cut ? 1 : 0;  // 1: the answer was cut off, so its text does not match the response format
}

void add_texts(CLI::App& command, AskArguments& arguments) {
  command
      .add_option_function<std::vector<std::string>>(
          "TEXT",
          [&arguments](const std::vector<std::string>& given) {
            for (const std::string& word : given) arguments.words.push_back(plain_text_argument(word));
          },
          "the question; MODEL may precede it. Text from a pipe is put before the question, or in place of a -")
      ->type_name("TEXT")
      ->expected(0, -1);
  arguments.model.add_model_option(command);
  arguments.model_option = command.get_option("--model");
  arguments.message.add(command, "the question, as an option",
                        "a file whose text is put before the question (may be repeated; - is standard input)");
}

}  // namespace

void add_ask(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<AskArguments>();
  CLI::App* command = root.add_subcommand("ask", "one answer on standard output and nothing else");
  add_texts(*command, *arguments);
  CLI::Option* json = command->add_flag("--json", arguments->json, "print the answer as JSON (docs/json.md)");
  json->group(kCommonGroup);
  arguments->message.add_verbose(*command);
  arguments->form.add(*command);
  arguments->turn.add(*command);
  command
      ->add_option("--logprobs", arguments->n_logprobs, "with --json: each token's log-probability and the N likeliest")
      ->type_name("N")
      ->check(whole_number(0, kMaxTopLogprobs))
      ->needs(json)
      ->group(kRareSamplingGroup);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  command->callback([arguments, &exit_code] {
    sort_words(*arguments);
    const Result<int> status = run_ask(*arguments);
    if (!status.ok() && arguments->json) std::puts(json_to_string(error_json(status.status())).c_str());
    if (status.ok()) {
      exit_code = *status;
    } else {
      exit_code = report({status.status().code(), failure_text(status.status(), AnswerPlace::kAsk)});
    }
  });
}

}  // namespace ibid
