package mutants

var goMutants = []mutant{}
