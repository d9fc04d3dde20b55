let placeholder = 1
