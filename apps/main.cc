// ibid: one program, one subcommand for each thing a person does with a model.
#include "apps/program.h"

int main(int argc, char** argv) { return ibid::run_program(argc, argv); }
