#include "apps/terminal/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

namespace ibid {
namespace {

// A pseudo-terminal whose modes the process may set.
class TerminalModesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(openpty(&far_end_, &terminal_, nullptr, nullptr, nullptr), 0); }
  ~TerminalModesTest() override {
    close(terminal_);
    close(far_end_);
  }

  // A shell starts background jobs with SIGINT ignored, which child processes inherit.
  static void heed_interrupts() { signal(SIGINT, SIG_DFL); }

  int terminal_ = -1, far_end_ = -1;
};
using TerminalModesDeathTest = TerminalModesTest;

TEST_F(TerminalModesDeathTest, FirstInterruptAfterAnAnswerIsIgnoredInEachMode) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        modes.set(TerminalMode::kTyping);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(TerminalModesDeathTest, SecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        raise(SIGINT);
        _exit(7);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST_F(TerminalModesDeathTest, InterruptWhileTypingEndsTheProcess) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kTyping);
        raise(SIGINT);
        _exit(7);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace ibid
