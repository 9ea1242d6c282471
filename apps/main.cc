// Entry point of ibid, one program with subcommands.
#include "apps/program.h"

int main(int argc, char** argv) { return ibid::run_program(argc, argv); }
