# nothing but this comment: everything is at its default
