subscribe /news//title
