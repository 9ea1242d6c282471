// An external program: asks a model one question, or, without a model, prints the error.
#include <iostream>

#include <ibid/chat_session.h>

int others_are_unharmed();  // own_json.cc

int main(int argc, char** argv) {
  if (others_are_unharmed() != 0) return 1;
  const auto engine = ibid::Engine::load(argc > 1 ? argv[1] : "no-such-model.gguf");
  if (!engine.ok()) {
    std::cout << engine.status().message() << '\n';
    return argc > 1 ? 1 : 0;
  }
  auto chat = ibid::ChatSession::create(*engine, {.system = "You are brief."});
  const auto turn = chat->send(argc > 2 ? argv[2] : "Hello!");
  std::cout << (turn.ok() ? turn->text : turn.status().message()) << '\n';
  return turn.ok() ? 0 : 1;
}
