#include "apps/chat/line_reader.h"

#include <histedit.h>
#include <signal.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace ibid {

namespace {

volatile sig_atomic_t interrupted = 0;
bool continuing = false;

void note_interrupt(int) { interrupted = 1; }

// The prompt stands on standard error with everything else that is no answer.
char* prompt(EditLine*) {
  static char first[] = "> ";
  static char next[] = "  ";
  return continuing ? next : first;
}

}  // namespace

struct LineReader::Terminal {
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event{};
};

LineReader::LineReader(bool interactive) {
  if (!interactive) return;
  // Without a UTF-8 locale libedit would take every byte of a character for one of its own.
  const char* locale = std::setlocale(LC_CTYPE, "");
  if (locale == nullptr || std::strstr(locale, "UTF-8") == nullptr) std::setlocale(LC_CTYPE, "C.UTF-8");
  terminal_ = std::make_unique<Terminal>();
  Terminal& t = *terminal_;
  t.history = history_init();
  history(t.history, &t.event, H_SETSIZE, 1000);
  t.edit = el_init("ibid", stdin, stderr, stderr);
  el_set(t.edit, EL_PROMPT, prompt);
  el_set(t.edit, EL_EDITOR, "emacs");
  el_set(t.edit, EL_HIST, history, t.history);
  el_source(t.edit, nullptr);  // the user's ~/.editrc
}

LineReader::~LineReader() {
  if (terminal_ == nullptr) return;
  el_end(terminal_->edit);
  history_end(terminal_->history);
}

LineReader::Outcome LineReader::read(std::string& line) {
  line.clear();
  if (terminal_ == nullptr) {
    if (!std::getline(std::cin, line)) return Outcome::kEnd;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return Outcome::kLine;
  }

  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = note_interrupt;  // without SA_RESTART: the read ends
  sigaction(SIGINT, &action, &before);
  interrupted = 0;
  continuing = false;
  Outcome outcome = Outcome::kLine;
  for (;;) {
    int size = 0;
    const char* text = el_gets(terminal_->edit, &size);
    if (interrupted != 0) {
      el_reset(terminal_->edit);
      outcome = Outcome::kInterrupted;
      break;
    }
    if (text == nullptr || size <= 0) {
      outcome = Outcome::kEnd;
      break;
    }
    line.append(text, static_cast<size_t>(size));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line.back() != '\\') break;
    line.back() = '\n';
    continuing = true;
  }
  sigaction(SIGINT, &before, nullptr);
  if (outcome == Outcome::kLine && !line.empty()) history(terminal_->history, &terminal_->event, H_ENTER, line.c_str());
  return outcome;
}

}  // namespace ibid
