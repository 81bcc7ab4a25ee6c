package mutants

var nodeMutants = []mutant{}
