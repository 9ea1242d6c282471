// `ibid chat --url`: the chat with a scripted server, and with `ibid serve`.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apps/chat_client/chat_server.h"
#include "apps/chat_client/reply_reader.h"
#include "apps/http_client/http.h"
#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/apps/python_server.h"
#include "tests/server/http/tls_certificate.h"
#include "tests/server/served_process.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ServerAddress, ValidUrlsAreParsedAndInvalidUrlsRefused) {
  for (const char* url : {"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"}) {
    EXPECT_EQ(parse_server_address(url)->base, "http://h:1") << url;
  }
  EXPECT_EQ(parse_server_address("https://h/api/v1")->base, "https://h/api");
  EXPECT_EQ(parse_server_address("unix:/run/x.sock")->unix_socket, "/run/x.sock");
  EXPECT_EQ(parse_server_address("unix:///run/x.sock")->unix_socket, "/run/x.sock");
  EXPECT_EQ(parse_server_address("unix:/run/x.sock")->name(), "unix:/run/x.sock");
  EXPECT_THAT(parse_server_address("localhost:8080").status().message(), HasSubstr("as http://localhost:8080"));
  for (const char* wrong : {"", "ftp://h", "http://", "http:///v1", "http://key@h", "http://h/?x=1", "http://h#x",
                            "http://h h", "unix:", "/run/x.sock"}) {
    EXPECT_EQ(parse_server_address(wrong).status().code(), ErrorCode::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(parse_server_address("http://name:secret@h").status().message().find("secret"), std::string::npos);
}

TEST(EventStream, EventsDoNotDependOnHowBytesAreSplit) {
  const std::string bytes =
      "\xEF\xBB\xBF: hello\ndata: one\n\nevent: x\r\ndata:two\r\ndata:  three\r\n\r\nid: 1\n\n"
      "data\n\ndata: four\r\rdata: lost";
  for (size_t size = 1; size <= bytes.size(); ++size) {
    std::vector<std::string> events;
    EventStream stream([&](std::string_view data) {
      events.emplace_back(data);
      return Status();
    });
    for (size_t i = 0; i < bytes.size(); i += size) ASSERT_TRUE(stream.feed(bytes.substr(i, size)).ok());
    EXPECT_THAT(events, ElementsAre("one", "two\n three", "", "four")) << size;
  }
}

TEST(EventStream, EventLengthIsLimited) {
  EventStream stream([](std::string_view) { return Status(); });
  const std::string piece(1 << 20, 'x');
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = stream.feed(piece);
  EXPECT_EQ(status.code(), ErrorCode::kLimitExceeded);
}

// Random bytes are either parsed or rejected.
TEST(ReplyReader, ToleratesRandomBytes) {
  const std::string stream =
      "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\",\"reasoning\":\"b\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,"
      "\"prompt_tokens_details\":{\"cached_tokens\":1}},\"ibid\":{\"seed\":1},\"prompt_progress\":{\"total\":2,"
      "\"processed\":1}}\n\ndata: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n";
  constexpr std::string_view kSwaps = "0-1.9e{}[]:,\"ntf\\u\n ";
  std::mt19937 random(7);
  size_t n_refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = stream;
    for (int n = 0; n < 3; ++n) bytes[random() % bytes.size()] = kSwaps[random() % kSwaps.size()];
    std::string heard;
    const ChatServer::OnPart listen = [&](const ChatPart& part) { heard += part.text; };
    ReplyReader reader(listen);
    EventStream events([&](std::string_view data) { return reader.take(data); });
    n_refused += events.feed(bytes).ok() ? 0 : 1;
    EXPECT_EQ(heard.size(), reader.reply().content.size() + reader.reply().reasoning.size());
  }
  EXPECT_GT(n_refused, 100u);
}

TEST(ReplyReader, AssemblesStreamedToolCallsAndParsesTheLostPrefixReport) {
  const ChatServer::OnPart listen = [](const ChatPart&) {};
  ReplyReader reader(listen);
  for (
      const char* data :
      {R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]})",
       R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}],"ibid":{"lost_prefix":{"tokens":7,"message":1,"byte":5,)"
       R"("token":3,"cause":"a date changed"}}})"}) {
    ASSERT_TRUE(reader.take(data).ok()) << data;
  }
  const ChatReply reply = reader.reply();
  EXPECT_THAT(reply.tool_calls, ElementsAre(ToolCall{"a", "f", "{\"x\":1}"}, ToolCall{"b", "g", "{}"}));
  ASSERT_TRUE(reply.lost_prefix);
  EXPECT_EQ(reply.lost_prefix->n_tokens, 7u);
  EXPECT_EQ(reply.lost_prefix->cause, LostCause::kDateChanged);
  EXPECT_EQ(reply.lost_prefix->to_string(), "7 cached tokens were lost in message 1: a date changed (byte 5, token 3)");
  EXPECT_EQ(reader.take(R"({"choices":[{"delta":{"tool_calls":[{"index":9,"function":{"name":"h"}}]}}]})").code(),
            ErrorCode::kBadHeader);
}

TEST(ReplyReader, ParsesEveryCauseOfALostPrefix) {
  for (int i = 0; i <= static_cast<int>(kLastLostCause); ++i) {
    const auto cause = static_cast<LostCause>(i);
    const ChatServer::OnPart listen = [](const ChatPart&) {};
    ReplyReader reader(listen);
    ASSERT_TRUE(reader
                    .take(R"({"choices":[],"ibid":{"lost_prefix":{"tokens":1,"cause":")" +
                          std::string(lost_cause_text(cause)) + R"("}}})")
                    .ok());
    ASSERT_TRUE(reader.reply().lost_prefix);
    EXPECT_EQ(reader.reply().lost_prefix->cause, cause);
  }
  EXPECT_EQ(lost_cause_text(static_cast<LostCause>(static_cast<int>(kLastLostCause) + 1)), "unknown") << "the last one";
}

// Returns the timer of the only connection to a port, from /proc/net/tcp.
std::string timer_of_connection_to(uint16_t port) {
  char remote[16];
  std::snprintf(remote, sizeof remote, ":%04X", port);
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, ours, theirs, state, queues, timer;
    words >> number >> ours >> theirs >> state >> queues >> timer;
    if (theirs.ends_with(remote) && state == "01") return timer.substr(0, 2);
  }
  return "";
}

// A host that has lost power closes no connection. Only TCP keepalive detects it.
TEST(HttpClient, SilentConnectionsHaveKeepalive) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const uint16_t port = ntohs(address.sin_port);
  std::stop_source stop;
  std::thread asks([&] {
    HttpRequest request{.url = "http://127.0.0.1:" + std::to_string(port) + "/", .stop = stop.get_token()};
    request.silent_seconds = 0;
    (void)http_post(request, "{}", [](long, std::string_view) { return true; });
  });
  const auto is_watched = [&] { return timer_of_connection_to(port) == "02"; };
  for (int i = 0; i < 2000 && !is_watched(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(is_watched());
  stop.request_stop();
  asks.join();
  close(listener);
}

class RemoteChat : public CommandLine {
 protected:
  Outcome chat(const std::string& input, const std::string& more = "") const {
    return run("chat --config '' --url " + server_.url() + " " + more, input);
  }
  std::vector<std::string> on_terminal(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {IBID_PROGRAM, "chat", "--url", server_.url()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns the request bodies that the server received.
  std::vector<Json> requests() const {
    std::vector<Json> bodies;
    std::istringstream lines(read_whole_file(dir_.file("log")));
    for (std::string line; std::getline(lines, line);) {
      if (const Result<Json> body = parse_json(line, "log"); body.ok()) bodies.push_back(*body);
    }
    return bodies;
  }

  PythonServer server_{{IBID_CHAT_SERVER, dir_.file("log")}};
};

TEST_F(RemoteChat, PipedLinesAreMessages) {
  const Outcome outcome =
      chat("one\n\ntwo\n", "--system Brief --temperature 0.5 --seed 7 --stop END --logit-bias 5=-inf");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "You said 'one' after 0.\n\nYou said 'two' after 1.\n");
  EXPECT_EQ(outcome.err, "");
  const std::vector<Json> sent = requests();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0]["model"], "parrot") << "the server's first model";
  EXPECT_EQ(sent[0]["messages"].size(), 2u);
  EXPECT_EQ(sent[1]["messages"].size(), 4u);
  EXPECT_EQ(sent[1]["messages"][0], Json({{"role", "system"}, {"content", "Brief"}}));
  EXPECT_EQ(sent[0]["temperature"], 0.5);
  EXPECT_EQ(sent[0]["seed"], 7);
  EXPECT_EQ(sent[1]["seed"], 1007);
  EXPECT_EQ(sent[0]["stop"], Json({"END"}));
  EXPECT_EQ(sent[0]["logit_bias"]["5"], -100);
  EXPECT_EQ(sent[0]["max_tokens"], 1000) << "a quarter of the context";
  EXPECT_EQ(sent[0]["stream_options"]["include_usage"], true);
  EXPECT_FALSE(sent[0].contains("top_p")) << "unset options are left to the server";
  EXPECT_FALSE(sent[0].contains("stop_repetition"));
}

TEST_F(RemoteChat, FailureIsReportedAndTheNextMessageIsSent) {
  const std::vector<std::pair<std::string, std::string>> failures = {
      {"busy", "accepts no more requests now: too much; send it again in 7 s"},
      {"long", "the context has 4000 tokens"},
      {"elsewhere", "redirects to another address (307)"},
      {"page", "does not support OpenAI chat completions"},
      {"broken", "an event of the stream"},
      {"error", "out of memory"},
      {"cut", "the connection ended in the middle of the answer"}};
  for (const auto& [message, reason] : failures) {
    const Outcome outcome = chat(message + "\nthen\n");
    EXPECT_EQ(outcome.status, 1) << message;
    EXPECT_THAT(outcome.err, HasSubstr("ibid: message 1: ")) << message;
    EXPECT_THAT(outcome.err, HasSubstr(reason)) << message;
    EXPECT_THAT(outcome.err, Not(HasSubstr("\x1b"))) << message;
    EXPECT_THAT(outcome.out, testing::EndsWith("You said 'then' after 0.\n")) << message;
    EXPECT_THAT("\n" + outcome.out, HasSubstr("\nYou said 'then'")) << message << ": begins on a new line";
  }
}

TEST_F(RemoteChat, ServerErrorsAreReportedAtTheStart) {
  const std::string command = "chat --config '' --url ";
  const Outcome absent = run(command + "http://127.0.0.1:1", "Hi\n");
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.err, HasSubstr("no server answers at http://127.0.0.1:1"));
  const Outcome page = run(command + server_.url() + "/web", "Hi\n");
  EXPECT_THAT(page.err, HasSubstr("does not support OpenAI chat completions"));
  EXPECT_EQ(page.status, 1);
  const Outcome model = chat("Hi\n", "--model crow");
  EXPECT_EQ(model.status, 1);
  EXPECT_THAT(model.err, HasSubstr("has no model 'crow'; it has parrot, owl"));
  EXPECT_EQ(run(command + "unix:" + dir_.file("none"), "Hi\n").status, 1);
  EXPECT_EQ(run(command + "localhost:1", "Hi\n").status, 1);
  for (const char* excluded : {"--resume x", "--threads 2", "--kv f16", "--when-full drop"}) {
    EXPECT_EQ(chat("Hi\n", excluded).status, 2) << excluded;
  }
  EXPECT_EQ(run("chat --api-key-file x", "Hi\n").status, 2);
}

TEST_F(RemoteChat, ApiKeyComesFromAFileOrTheEnvironment) {
  PythonServer guarded({IBID_CHAT_SERVER, dir_.file("log"), "key-of-the-test"});
  const std::string command = "chat --config '' --url " + guarded.url();
  const Outcome none = run(command, "Hi\n");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("wants an API key: --api-key-file FILE, or IBID_API_KEY"));
  const Outcome wrong = run(command, "Hi\n", "IBID_API_KEY=another-key-9 ");
  EXPECT_THAT(wrong.err, HasSubstr("does not take this API key"));
  EXPECT_THAT(wrong.err, Not(HasSubstr("another-key")));
  EXPECT_EQ(run(command, "Hi\n", "IBID_API_KEY=key-of-the-test ").out, "You said 'Hi' after 0.\n");
  const std::string file = dir_.write("keys", "# ours\nme=key-of-the-test\n");
  EXPECT_EQ(run(command + " --api-key-file " + file, "Hi\n").out, "You said 'Hi' after 0.\n");
  EXPECT_THAT(run(command + " --api-key-file /no/such", "Hi\n").err, HasSubstr("/no/such"));
}

TEST_F(RemoteChat, JsonOptionPrintsEachAnswerAsALine) {
  const Outcome outcome = chat("one\nbusy\nthink\n", "--json --model owl");
  EXPECT_EQ(outcome.status, 1);
  std::vector<Json> lines;
  std::istringstream in(outcome.out);
  for (std::string line; std::getline(in, line);) lines.push_back(*parse_json(line, "line"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["model"], "owl");
  EXPECT_EQ(lines[0]["usage"]["prompt_tokens_details"]["cached_tokens"], 90);
  EXPECT_EQ(lines[1]["error"]["code"], "busy");
  EXPECT_EQ(lines[2]["messages"].size(), 4u);
  EXPECT_EQ(lines[2]["messages"][3]["reasoning_content"], "Let me see.");
  EXPECT_FALSE(requests()[0].contains("max_tokens")) << "answers for programs are not limited";
}

TEST_F(RemoteChat, TerminalShowsUsageAndSupportsCommands) {
  PseudoTerminal terminal(on_terminal());
  ASSERT_TRUE(terminal.shows("parrot at http://127.0.0.1"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("one\r");
  ASSERT_TRUE(terminal.shows("turn 1 · 105 tokens · 90 cached"));
  terminal.type("/regen\r");
  ASSERT_TRUE(terminal.shows("You said 'one' after 0.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/edit two\r");
  ASSERT_TRUE(terminal.shows("You said 'two' after 0."));
  terminal.type("three\r");
  ASSERT_TRUE(terminal.shows("You said 'three' after 1."));
  terminal.type("/undo\r");
  ASSERT_TRUE(terminal.shows("undone: "));
  terminal.type("four\r");
  ASSERT_TRUE(terminal.shows("You said 'four' after 1."));
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.shows("turns            2, 105 of 4000 tokens of the context used"));
  terminal.type("/system Be kind\r");
  ASSERT_TRUE(terminal.shows("with this system message"));
  terminal.type("/history\r");
  ASSERT_TRUE(terminal.shows("0  system: Be kind"));
  terminal.type("/set temperature 0.25\r");
  ASSERT_TRUE(terminal.shows("temperature 0.25 from the next answer on"));
  terminal.type("/show top-p\r");
  ASSERT_TRUE(terminal.shows("top-p the server's"));
  for (const auto& [command, words] :
       {std::pair("/save x", "is not kept in a file"), std::pair("/pin 0", "messages cannot be pinned"),
        std::pair("/answers 2 x", "one answer at a time"), std::pair("/when-full drop", "the server decides")}) {
    terminal.type(std::string(command) + "\r");
    ASSERT_TRUE(terminal.shows(words)) << command;
    ASSERT_TRUE(terminal.prompts());
  }
  terminal.type("five\r");
  ASSERT_TRUE(terminal.shows("You said 'five' after 0."));
  EXPECT_EQ(requests().back()["temperature"], 0.25);
  EXPECT_FALSE(requests().back().contains("continue_final_message"));
  terminal.type("/continue\r");
  ASSERT_TRUE(terminal.shows("You said 'You said 'five' after 0.'"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_EQ(requests().back()["messages"].back()["role"], "assistant");
  EXPECT_EQ(requests().back()["continue_final_message"], true);
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_status(), 0);
  EXPECT_TRUE(terminal.is_as_found());
}

TEST_F(RemoteChat, LostPrefixAndToolCallsAreShown) {
  PseudoTerminal terminal(on_terminal());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("lost\r");
  ASSERT_TRUE(terminal.shows("17 cached tokens were lost in message 2: the message was changed (byte 120,"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("tool\r");
  ASSERT_TRUE(terminal.shows("calls look_up {\"city\": \"Rome\"}"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("more\r");
  ASSERT_TRUE(terminal.shows("length limit"));
  const Json last = requests().back();
  const Json& call = last["messages"][3]["tool_calls"][0];
  EXPECT_EQ(call["id"], "call_1");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Rome\"}") << "with the server's spelling";
}

TEST_F(RemoteChat, ReasoningIsShownBetweenTagsAndStoredSeparately) {
  PseudoTerminal terminal(on_terminal());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("think\r");
  ASSERT_TRUE(terminal.shows("<think>\nLet me see.\n</think>\n\nYou said 'think'"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/history 1\r");
  ASSERT_TRUE(terminal.shows("assistant:\nYou said 'think' after 0."));
  terminal.type("more\r");
  ASSERT_TRUE(terminal.shows("length limit"));
  EXPECT_FALSE(requests().back()["messages"][1].contains("reasoning_content")) << "some servers reject it";
}

TEST_F(RemoteChat, ControlCClosesTheConnectionAndKeepsThePartialAnswer) {
  PseudoTerminal terminal(on_terminal());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("slow\r");
  ASSERT_TRUE(terminal.shows("word 3"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  ASSERT_TRUE(terminal.prompts());
  const auto told = [&] { return read_whole_file(dir_.file("log")).find("gone") != std::string::npos; };
  for (int i = 0; i < 500 && !told(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(told());
  terminal.type("then\r");
  ASSERT_TRUE(terminal.shows("You said 'then' after 1."));
}

TEST_F(RemoteChat, PartialAnswerOfABrokenConnectionStaysOnTheScreen) {
  PseudoTerminal terminal(on_terminal());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("cut\r");
  ASSERT_TRUE(terminal.shows("Only the beginning\n"));
  ASSERT_TRUE(terminal.shows("in the middle of the answer"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/history\r");
  ASSERT_TRUE(terminal.shows("no messages yet"));
  terminal.type("\x1b[A\x1b[A");  // recalls the message
  ASSERT_TRUE(terminal.shows("> cut"));
}

// ibid as client and server.
class RemoteChatWithIbid : public CommandLine {
 protected:
  RemoteChatWithIbid() {
    write_scripted_model(model_,
                         {{.when = "'story' in q", .says = "Once upon a time there was", .endless = true},
                          {.says = "Hello there, my friend."}},
                         kContext);
  }
  static constexpr size_t kContext = 150'000;  // with a large context, an endless answer takes some seconds
  const std::string model_ = dir_.file("scripted.gguf");
};

TEST_F(RemoteChatWithIbid, ChatWorksOverTcpWithAKeyAndOverAUnixSocket) {
  const std::string socket = dir_.file("socket");
  ServedProcess served({model_, "--port", "0", "--check-model-names", "--unix", socket},
                       {"IBID_API_KEY=key-of-a-test"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  for (const std::string& url : {"http://127.0.0.1:" + std::to_string(port), "unix:" + socket}) {
    const Outcome outcome = run("chat --config '' -v --url " + url, "Hi\nAgain\n", "IBID_API_KEY=key-of-a-test ");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "Hello there, my friend.\n\nHello there, my friend.\n");
    EXPECT_THAT(outcome.err, HasSubstr("scripted, context 150000"));
    EXPECT_THAT(outcome.err, HasSubstr("finish: stop"));
  }
  EXPECT_THAT(run("chat --config '' --url unix:" + socket, "Hi\n").err, HasSubstr("wants an API key"));
  const Outcome other = run("chat --config '' --model gpt --url unix:" + socket, "Hi\n", "IBID_API_KEY=key-of-a-test ");
  EXPECT_THAT(other.err, HasSubstr("has no model 'gpt'; it has scripted"));
}

TEST_F(RemoteChatWithIbid, UntrustedCertificateIsReportedAsSuch) {
  http::write_certificate(dir_.file("cert.pem"), dir_.file("key.pem"));
  ServedProcess served({model_, "--port", "0", "--cert", dir_.file("cert.pem"), "--key", dir_.file("key.pem")});
  const std::string at = "127.0.0.1:" + std::to_string(served.port());
  const Outcome stranger = run("chat --config '' --url https://" + at, "Hi\n");
  EXPECT_EQ(stranger.status, 1);
  EXPECT_THAT(stranger.err, HasSubstr("a certificate that this machine does not trust"));
  EXPECT_THAT(stranger.err, HasSubstr("SSL_CERT_FILE=FILE"));
  const Outcome known =
      run("chat --config '' --url https://" + at, "Hi\n", "SSL_CERT_FILE=" + dir_.file("cert.pem") + " ");
  EXPECT_EQ(known.out, "Hello there, my friend.\n") << known.err;
  ServedProcess plain({model_, "--port", "0"});
  const Outcome no_tls = run("chat --config '' --url https://127.0.0.1:" + std::to_string(plain.port()), "Hi\n");
  EXPECT_THAT(no_tls.err, HasSubstr("cannot be reached with TLS"));
  EXPECT_THAT(no_tls.err, HasSubstr("http://"));
}

TEST_F(RemoteChatWithIbid, AnswerCanBeStoppedAndTheChatContinues) {
  ServedProcess served({model_, "--port", "0"});
  const std::string url = "http://127.0.0.1:" + std::to_string(served.port());
  PseudoTerminal terminal({IBID_PROGRAM, "chat", "--url", url, "--max-tokens", "unlimited"});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Tell me a story\r");
  ASSERT_TRUE(terminal.shows("upon"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/undo\r");
  ASSERT_TRUE(terminal.shows("undone: "));
  terminal.type("Hi\r");
  ASSERT_TRUE(terminal.shows("Hello there, my friend.\n"));
  terminal.type("And again\r");
  ASSERT_TRUE(terminal.shows("turn 2"));
  terminal.type("/model\r");
  ASSERT_TRUE(terminal.shows("model            scripted"));
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_status(), 0);
}

}  // namespace
}  // namespace ibid
